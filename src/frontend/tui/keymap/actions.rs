//! Every action of the screen: its name in configuration, its help, where it holds, its keys.
//!
//! One table; a new action is a line in it. Keys are those people know from readline, from
//! shells and from pagers. Knows nothing of what an action does. Read by the keymap only.

use crate::frontend::tui::keymap::Context;

/// An action as the table has it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) action: Action,
    pub(super) context: Context,
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) keys: &'static [&'static str],
}

macro_rules! actions {
    ($($context:ident { $($action:ident $name:literal [$($key:literal),*] $help:literal;)* })*) => {
        /// What a key can do.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) enum Action {
            $($(#[doc = concat!("It ", $help, ".")] $action,)*)*
        }

        /// All actions with what they are by default, in the order of the help list.
        pub(super) const TABLE: &[Entry] = &[
            $($(Entry {
                action: Action::$action,
                context: Context::$context,
                name: $name,
                help: $help,
                keys: &[$($key),*],
            },)*)*
        ];
    };
}

actions! {
    Global {
        Interrupt "interrupt" ["esc"] "closes what is open, else stops what runs";
        Quit "quit" ["ctrl-c"] "clears the draft; twice leaves";
        Suspend "suspend" ["ctrl-z"] "goes to the background of the shell";
        Redraw "redraw" ["ctrl-l"] "draws the screen anew";
        Transcript "transcript" ["ctrl-t"] "opens the whole transcript";
        CycleMode "cycle-mode" ["shift-tab"] "goes to the next mode";
        Background "background" ["ctrl-b"] "goes one character left";
    }
    EmptyComposer {
        Help "help" ["?"] "shows the keys";
        Leave "leave" ["ctrl-d"] "leaves, when nothing is typed";
    }
    Composer {
        Send "send" ["enter"] "sends";
        Queue "queue" ["tab"] "sends after the running turn";
        EditQueued "edit-queued" ["alt-up"] "takes the last queued message back";
        Newline "newline" ["shift-enter", "alt-enter", "ctrl-j"] "starts a new line";
        Left "left" ["left"] "goes one character left";
        Right "right" ["right", "ctrl-f"] "goes one character right";
        Up "up" ["up", "ctrl-p"] "goes one row up, from the first to the message before";
        Down "down" ["down", "ctrl-n"] "goes one row down, from the last to the message after";
        WordLeft "word-left" ["alt-b", "alt-left", "ctrl-left"] "goes one word left";
        WordRight "word-right" ["alt-f", "alt-right", "ctrl-right"] "goes one word right";
        LineStart "line-start" ["ctrl-a", "home"] "goes to the start of the line";
        LineEnd "line-end" ["ctrl-e", "end"] "goes to the end of the line";
        TextStart "text-start" ["alt-<", "ctrl-home"] "goes to the start of the text";
        TextEnd "text-end" ["alt->", "ctrl-end"] "goes to the end of the text";
        DeleteLeft "delete-left" ["backspace", "ctrl-h", "shift-backspace"] "deletes the character before";
        DeleteRight "delete-right" ["delete", "ctrl-d"] "deletes the character after";
        KillWordLeft "kill-word-left" ["alt-backspace", "ctrl-backspace"] "cuts the word before";
        KillWordRight "kill-word-right" ["alt-d", "alt-delete", "ctrl-delete"] "cuts the word after";
        KillArgumentLeft "kill-argument-left" ["ctrl-w"] "cuts back to the last space";
        KillToLineStart "kill-to-line-start" ["ctrl-u"] "cuts to the start of the line";
        KillToLineEnd "kill-to-line-end" ["ctrl-k"] "cuts to the end of the line";
        Yank "yank" ["ctrl-y"] "puts back what was cut last";
        YankPop "yank-pop" ["alt-y"] "then: what was cut before that";
        Undo "undo" ["ctrl-_", "ctrl-x ctrl-u"] "undoes typing";
        Redo "redo" ["alt-_", "ctrl-shift-z"] "does it again";
        UnfoldPaste "unfold-paste" ["alt-p"] "shows the paste at the cursor in full";
        OpenEditor "editor" ["ctrl-g", "ctrl-x ctrl-e"] "opens the text in your editor";
        SearchHistory "search-history" ["ctrl-r"] "searches earlier messages";
    }
    VimNormal {
        VimRedo "vim-redo" ["ctrl-r"] "does what was undone again";
    }
    Search {
        SearchOlder "search-older" ["ctrl-r", "up"] "finds one further back";
        SearchNewer "search-newer" ["ctrl-s", "down"] "finds one less far back";
        SearchAccept "search-accept" ["enter", "tab"] "takes it, to edit or send";
        SearchCancel "search-cancel" ["esc", "ctrl-g", "ctrl-c"] "goes back to the draft";
    }
    Completion {
        CompletionPrevious "completion-previous" ["up", "ctrl-p"] "goes up the list";
        CompletionNext "completion-next" ["down", "ctrl-n"] "goes down the list";
        CompletionAccept "completion-accept" ["tab", "enter"] "takes the chosen one";
        CompletionClose "completion-close" ["esc"] "closes the list";
    }
    Approval {
        ApproveOnce "approve-once" ["y"] "yes, once";
        ApproveSession "approve-session" ["s"] "yes, for this session";
        ApproveProject "approve-project" ["p"] "yes, always in this project";
        ApproveEdited "approve-edited" ["e"] "edits it first";
        Decline "decline" ["n"] "no";
        DeclineAndTell "decline-and-tell" ["t"] "no, and says what to do instead";
        ApprovalPrevious "approval-previous" ["up", "k"] "goes to the choice before";
        ApprovalNext "approval-next" ["down", "j"] "goes to the next choice";
        ApprovalChoose "approval-choose" ["enter"] "takes the marked choice, which is no at first";
    }
    Hunks {
        HunkTake "hunk-take" ["y"] "takes this hunk";
        HunkLeave "hunk-leave" ["n"] "leaves this hunk";
        HunksTakeAll "hunks-take-all" ["a"] "takes all";
        HunksLeaveAll "hunks-leave-all" ["d"] "leaves all";
        HunkPrevious "hunk-previous" ["k", "up"] "goes to the hunk before";
        HunkNext "hunk-next" ["j", "down"] "goes to the next hunk";
        HunksApply "hunks-apply" ["enter"] "applies those that are taken";
        HunksTell "hunks-tell" ["t"] "applies none, and says what to do instead";
    }
    List {
        ListPrevious "list-previous" ["up", "ctrl-p"] "goes up";
        ListNext "list-next" ["down", "ctrl-n"] "goes down";
        ListChoose "list-choose" ["enter", "tab"] "takes the chosen one";
        ListErase "list-erase" ["backspace", "ctrl-h"] "deletes the last letter of the filter";
        ListClear "list-clear" ["ctrl-u"] "empties the filter";
    }
    Scroll {
        PageUp "page-up" ["pageup"] "goes one page up";
        PageDown "page-down" ["pagedown"] "goes one page down";
        ScrollTop "scroll-top" ["home"] "goes to the top";
        ScrollBottom "scroll-bottom" ["end"] "goes to the end";
    }
    Pager {
        LineUp "line-up" ["up", "k", "ctrl-p"] "goes one line up";
        LineDown "line-down" ["down", "j", "ctrl-n"] "goes one line down";
        HalfPageUp "half-page-up" ["ctrl-u"] "goes half a page up";
        HalfPageDown "half-page-down" ["ctrl-d", "space"] "goes half a page down";
        PagerTop "pager-top" ["g"] "goes to the top";
        PagerBottom "pager-bottom" ["G"] "goes to the end";
        PagerClose "pager-close" ["q"] "closes it";
    }
    Transcript {
        Find "find" ["/", "ctrl-r"] "searches";
        FindNext "find-next" ["n"] "goes to the next match";
        FindPrevious "find-previous" ["N"] "goes to the match before";
        ToggleFold "toggle-fold" ["enter", "o"] "folds or unfolds what is marked";
        ToggleFolds "toggle-folds" ["O"] "folds or unfolds everything";
        Copy "copy" ["y"] "copies what is marked";
    }
}
