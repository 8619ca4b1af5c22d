//! What is known of programs: the options with which they only look. A pure table.
//!
//! A program or an option that is not here makes a call unknown, so what writes, runs code,
//! reaches the network or differs between systems is left out, with a note where it is close
//! by. Called by `judge.rs`; the columns are those of `options.rs`.

use crate::policy::command::options::Operands::{Any, AtMost, Needing, Unseen, Without};
use crate::policy::command::options::{Operands, Program};

const fn p(
    name: &'static str,
    flags: &'static str,
    values: &'static str,
    long: &'static str,
    operands: Operands,
) -> Program<'static> {
    Program { name, flags, values, long, operands }
}

/// Binutils read options from files named after `@`.
const NO_RESPONSE_FILES: Operands = Without { starts: "@", holds: "" };
const SUM_LONG: &str = "binary check ignore-missing quiet status strict tag text warn zero";
const GREP_FLAGS: &str = "EFGPRTUVabchHiIlLnoqrsvwxyzZ#";
const GREP_LONG: &str = "after-context= basic-regexp before-context= binary binary-files= \
    byte-offset color? colour? context= count devices= directories= dereference-recursive \
    exclude= exclude-dir= exclude-from= extended-regexp file= files-with-matches \
    files-without-match fixed-strings help ignore-case include= initial-tab invert-match label= \
    line-buffered line-number line-regexp max-count= no-filename no-ignore-case no-messages null \
    null-data only-matching perl-regexp quiet recursive regexp= silent text version \
    with-filename word-regexp";
/// Without `--pre`, `--hostname-bin` and `-z`, which run programs.
const RG_LONG: &str = "after-context= auto-hybrid-regex before-context= binary block-buffered \
    byte-offset case-sensitive color= colors= column context= context-separator= count \
    count-matches crlf debug dfa-size-limit= encoding= engine= field-context-separator= \
    field-match-separator= file= files files-with-matches files-without-match fixed-strings \
    follow glob= glob-case-insensitive heading help hidden iglob= ignore-case ignore-file= \
    include-zero invert-match json line-buffered line-number line-regexp max-columns= \
    max-columns-preview max-count= max-depth= max-filesize= mmap multiline multiline-dotall \
    no-column no-config no-filename no-heading no-ignore no-ignore-dot no-ignore-exclude \
    no-ignore-files no-ignore-global no-ignore-messages no-ignore-parent no-ignore-vcs \
    no-line-number no-messages no-mmap no-require-git no-unicode null null-data \
    one-file-system only-matching passthru path-separator= pcre2 pretty quiet regex-size-limit= \
    regexp= replace= smart-case sort= sortr= stats stop-on-nonmatch text threads= trim type= \
    type-add= type-clear= type-list type-not= unrestricted version vimgrep with-filename \
    word-regexp";
/// Without `--exec` and `--exec-batch`, and `--list-details`, which runs `ls`.
const FD_LONG: &str = "absolute-path and= base-directory= case-sensitive changed-before= \
    changed-within= color= exact-depth= exclude= extension= fixed-strings follow full-path glob \
    help hidden ignore-case ignore-file= max-depth= max-results= min-depth= no-follow no-hidden \
    no-ignore no-ignore-parent no-ignore-vcs one-file-system owner= path-separator= print0 prune \
    quiet regex relative-path search-path= size= strip-cwd-prefix threads= type= unrestricted \
    version";

/// Programs whose arguments the columns describe in full.
pub(super) const PROGRAMS: &[Program<'static>] = &[
    // Files by name.
    p(
        "ls",
        "1aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ@eO%",
        "ITw",
        "all almost-all author block-size= classify? color? context \
        dereference dereference-command-line directory dired escape file-type format= full-time \
        group-directories-first help hide= human-readable hyperlink? ignore= ignore-backups \
        indicator-style= inode kibibytes literal no-group numeric-uid-gid quote-name \
        quoting-style= recursive reverse show-control-chars si size sort= time= time-style= \
        version width= zero",
        Unseen,
    ),
    // `-o` writes; `-R` with `-H` does, too.
    p(
        "tree",
        "adfilpsugDhFqNnCAQJtrvUcxS",
        "LIP",
        "charset= dirsfirst du filelimit= filesfirst \
        gitignore help ignore-case inodes matchdirs metafirst noreport prune si sort= timefmt= \
        version",
        Any,
    ),
    p(
        "stat",
        "LFfHlnqrsxt",
        "c",
        "cached= dereference file-system format= help printf= terse version",
        Unseen,
    ),
    // `-C` compiles, `-z` runs programs, `-m` and `-f` read more than is named.
    p(
        "file",
        "bhiILkNnprsv0",
        "eF",
        "brief dereference exclude= extension help keep-going mime mime-encoding \
        mime-type no-buffer no-dereference no-pad preserve-date print0 raw separator= special-files version",
        Any,
    ),
    p(
        "du",
        "0abcDghHklLmPSsx",
        "BdItX",
        "all apparent-size block-size= bytes count-links dereference \
        dereference-args exclude= help human-readable inodes max-depth= no-dereference null \
        one-file-system separate-dirs si summarize threshold= time? time-style= total version",
        Unseen,
    ),
    p(
        "df",
        "abcgHhiIklmPTYn",
        "Btx",
        "all block-size= exclude-type= help human-readable inodes local \
        no-sync output? portability print-type si total type= version",
        Any,
    ),
    p("fd", "HIuLapFgsi0q1h", "deEtScj", FD_LONG, Any),
    p("fdfind", "HIuLapFgsi0q1h", "deEtScj", FD_LONG, Any),
    p(
        "locate",
        "0bceiLPqrS",
        "dln",
        "all basename count existing ignore-case limit= null quiet regex regexp= statistics",
        Any,
    ),
    p("namei", "lmnovx", "", "help long modes nosymlinks owners vertical version", Any),
    p(
        "getfacl",
        "aceEnpRst",
        "",
        "absolute-names access numeric omit-header recursive tabular",
        Any,
    ),
    p("lsattr", "adlpRvV", "", "", Any),
    p("basename", "az", "s", "help multiple suffix= version zero", Unseen),
    p("dirname", "z", "", "help version zero", Unseen),
    p(
        "realpath",
        "eEmLPqsz",
        "",
        "canonicalize-existing canonicalize-missing help logical no-symlinks \
        physical quiet relative-base= relative-to= strip version zero",
        Unseen,
    ),
    p(
        "readlink",
        "efmnqsvz",
        "",
        "canonicalize canonicalize-existing canonicalize-missing help \
        no-newline quiet silent verbose version zero",
        Unseen,
    ),
    p("pwd", "LP", "", "help logical physical version", AtMost(0)),
    // Contents.
    p(
        "cat",
        "AbeEnstTuvl",
        "",
        "help number number-nonblank show-all show-ends show-nonprinting \
        show-tabs squeeze-blank version",
        Unseen,
    ),
    p("zcat", "fv", "", "", Any),
    p(
        "head",
        "qvz#",
        "nc",
        "bytes= help lines= quiet silent verbose version zero-terminated",
        Unseen,
    ),
    // `-f` never ends.
    p(
        "tail",
        "qvz#r",
        "bnc",
        "bytes= help lines= quiet silent verbose version zero-terminated",
        Unseen,
    ),
    p(
        "wc",
        "clmLw",
        "",
        "bytes chars files0-from= help lines max-line-length total= version words",
        Unseen,
    ),
    p(
        "nl",
        "p",
        "bdfhilnsvw",
        "body-numbering= help line-increment= number-format= number-separator= \
        number-width= starting-line-number= version",
        Unseen,
    ),
    p("tac", "br", "s", "before help regex separator= version", Unseen),
    p("rev", "", "", "help version", Unseen),
    // `less` and other pagers run commands for who types at them.
    p(
        "od",
        "abcdDefFhHiIlLoOsvxX",
        "AjNtSw",
        "address-radix= endian= format= help output-duplicates \
        read-bytes= skip-bytes= strings? traditional version width?",
        Unseen,
    ),
    // A second name is written to; `-r` turns it around.
    p("xxd", "abcCeEgilopsuv#", "", "", AtMost(1)),
    p("hexdump", "bcCdovxX", "ens", "canonical help no-squeezing", Any),
    p("hd", "vC", "ns", "", Any),
    p(
        "strings",
        "afwo#",
        "nte",
        "all bytes= encoding= help print-file-name radix= version",
        NO_RESPONSE_FILES,
    ),
    p("base64", "dDn", "w", "decode help ignore-garbage version wrap=", AtMost(1)),
    p("base32", "d", "w", "decode help ignore-garbage version wrap=", AtMost(1)),
    p("gzip", "lvNq", "", "list quiet verbose", Needing("l")),
    p("gunzip", "cklvNqf", "", "list stdout to-stdout verbose", Needing("cl")),
    p("unzip", "lvZtpqCah1", "x", "", Needing("lvZtp")),
    p("zipinfo", "12hlmMstTvzC", "x", "", Any),
    p(
        "nm",
        "aABCDefgjlnoPprSuUvxm",
        "t",
        "defined-only demangle? dynamic extern-only line-numbers \
        numeric-sort no-demangle print-file-name print-size reverse-sort size-sort undefined-only",
        NO_RESPONSE_FILES,
    ),
    p(
        "objdump",
        "afpPhxdDSgetTrRsCwlz",
        "jMbm",
        "all-headers archive-headers demangle? disassemble \
        disassemble-all dynamic-reloc dynamic-syms file-headers full-contents headers line-numbers \
        no-addresses no-show-raw-insn private-headers reloc section= section-headers source \
        start-address= stop-address= syms wide",
        NO_RESPONSE_FILES,
    ),
    p(
        "readelf",
        "aehlgtSsnrdVAIWu",
        "xp",
        "all dyn-syms dynamic file-header headers hex-dump= notes \
        program-headers relocs sections section-details segments string-dump= symbols syms \
        version-info wide",
        NO_RESPONSE_FILES,
    ),
    p("size", "ABdotxm", "", "", NO_RESPONSE_FILES),
    p("md5sum", "bctwz", "", SUM_LONG, Unseen),
    p("sha1sum", "bctwz", "", SUM_LONG, Unseen),
    p("sha224sum", "bctwz", "", SUM_LONG, Unseen),
    p("sha256sum", "bctwz", "", SUM_LONG, Unseen),
    p("sha384sum", "bctwz", "", SUM_LONG, Unseen),
    p("sha512sum", "bctwz", "", SUM_LONG, Unseen),
    p("b2sum", "bctwz", "l", SUM_LONG, Unseen),
    p("shasum", "bctUwqs0", "a", "algorithm= binary check text warn", Any),
    p("md5", "nqrtx", "s", "", Any),
    p("cksum", "bctwz", "a", "algorithm= check raw tag untagged zero", Unseen),
    p("sum", "rs", "", "", Any),
    p("bzcat", "", "", "", Any),
    p("xzcat", "", "", "", Any),
    p("zstdcat", "", "", "", Any),
    p("xz", "lvq", "", "list", Needing("l")),
    p("otool", "dDhIlLtvV", "", "", Any),
    // Searching.
    p("grep", GREP_FLAGS, "ABCDdemf", GREP_LONG, Unseen),
    p("egrep", GREP_FLAGS, "ABCDdemf", GREP_LONG, Unseen),
    p("fgrep", GREP_FLAGS, "ABCDdemf", GREP_LONG, Unseen),
    p("rg", "abcFHhiIlLnNoPpqsSuUvVwx0.", "ABCEdegjmMrtTf", RG_LONG, Any),
    // `--pager` runs a program.
    p(
        "ag",
        "acDfFHilLnoQRsStuUvwz0",
        "ABCgGmp",
        "ackmate all-text case-sensitive color column count \
        depth= file-search-regex= files-with-matches files-without-matches fixed-strings follow \
        heading hidden ignore= ignore-case ignore-dir= invert-match line-numbers literal \
        max-count= nocolor nofilename nogroup noheading nonumbers only-matching smart-case stats \
        unrestricted vimgrep word-regexp",
        Any,
    ),
    // Sorting, cutting, comparing. Without `sort -o`, `-T` and `--compress-program`.
    p(
        "sort",
        "bcCdfghiMnRrsuVz",
        "kt",
        "check? dictionary-order field-separator= \
        general-numeric-sort help human-numeric-sort ignore-case ignore-leading-blanks \
        ignore-nonprinting key= month-sort numeric-sort random-sort reverse stable unique version \
        version-sort zero-terminated",
        Any,
    ),
    // A second name is written to.
    p(
        "uniq",
        "cdDiuz",
        "fsw",
        "all-repeated? check-chars= count group? help ignore-case repeated \
        skip-chars= skip-fields= unique version zero-terminated",
        AtMost(1),
    ),
    p(
        "cut",
        "nsz",
        "bcdf",
        "bytes= characters= complement delimiter= fields= help only-delimited \
        output-delimiter= version zero-terminated",
        Unseen,
    ),
    p("tr", "cCdstu", "", "complement delete help squeeze-repeats truncate-set1 version", Any),
    p("paste", "sz", "d", "delimiters= help serial version zero-terminated", Unseen),
    p(
        "join",
        "iz",
        "12aejotv",
        "check-order header help ignore-case nocheck-order version zero-terminated",
        Unseen,
    ),
    p(
        "comm",
        "123iz",
        "",
        "check-order help nocheck-order output-delimiter= total version zero-terminated",
        Unseen,
    ),
    // `-l` runs `pr`.
    p(
        "diff",
        "abBcdeEiHnNpqrstTuwyZ#",
        "CFIUWxSX",
        "brief color? context? exclude= exclude-from= \
        expand-tabs help ignore-all-space ignore-blank-lines ignore-case ignore-matching-lines= \
        ignore-space-change ignore-tab-expansion ignore-trailing-space label= left-column minimal \
        new-file no-dereference normal recursive report-identical-files show-c-function \
        show-function-line= side-by-side speed-large-files starting-file= \
        strip-trailing-cr suppress-blank-empty suppress-common-lines text unidirectional-new-file \
        unified? version width=",
        Any,
    ),
    p(
        "cmp",
        "bls",
        "in",
        "bytes= help ignore-initial= print-bytes quiet silent verbose version",
        Unseen,
    ),
    p(
        "column",
        "tenxRLJ",
        "csoNlH",
        "fillrows json output-separator= output-width= separator= table \
        table-columns= table-columns-limit= table-hide= table-noheadings",
        Any,
    ),
    p("fold", "bs", "w", "bytes help spaces version width=", Unseen),
    p("fmt", "csutn", "w", "help split-only tagged-paragraph uniform-spacing version width=", Any),
    p("expand", "i", "t", "help initial tabs= version", Unseen),
    p("unexpand", "a", "t", "all first-only help tabs= version", Unseen),
    p("seq", "w#", "fs", "equal-width format= help separator= version", Any),
    // `-o` writes.
    p("shuf", "ez", "in", "echo head-count= help input-range= version zero-terminated", Any),
    p("tsort", "", "", "help version", AtMost(1)),
    p(
        "numfmt",
        "z",
        "d",
        "delimiter= field= format= from= from-unit= grouping header? help invalid= \
        padding= round= suffix= to= to-unit= version",
        Any,
    ),
    p("factor", "h", "", "help version", Any),
    p("expr", "", "", "", Any),
    p(
        "jq",
        "rcenMsSajCR",
        "Lf",
        "arg= args ascii-output color-output compact-output exit-status \
        from-file= help indent= join-output jsonargs monochrome-output null-input raw-input \
        raw-output raw-output0 seq slurp sort-keys stream tab version",
        Any,
    ),
    // Two programs have this name: only what both take, or one refuses.
    p(
        "yq",
        "reP",
        "op",
        "output-format= input-format= prettyPrint raw-output unwrapScalar help version",
        Any,
    ),
    // The machine.
    p("true", "", "", "", Any),
    p("false", "", "", "", Any),
    p(":", "", "", "", Any),
    p("sleep", "", "", "", Without { starts: "", holds: "abcdefgijklnopqrtuvwxyz" }),
    // An operand sets the clock, unless it is a format.
    p(
        "date",
        "uRjnI",
        "drvf",
        "date= debug help iso-8601? reference= resolution rfc-3339= rfc-email universal utc version",
        Any,
    ),
    p("cal", "13jmswyhN", "ABdnS", "", Any),
    p(
        "uname",
        "amnrspvioK",
        "",
        "all hardware-platform help kernel-name kernel-release kernel-version \
        machine nodename operating-system processor version",
        AtMost(0),
    ),
    // An operand sets the name.
    p(
        "hostname",
        "aAdfIisy",
        "",
        "all-fqdns all-ip-addresses domain fqdn help ip-address long short version",
        AtMost(0),
    ),
    p("arch", "", "", "help version", AtMost(0)),
    p("whoami", "", "", "help version", AtMost(0)),
    p("logname", "", "", "help version", AtMost(0)),
    p("id", "gGnruzaZ", "", "group groups help name real user version zero", Any),
    p("groups", "", "", "help version", Any),
    p("users", "", "", "help version", AtMost(0)),
    p("who", "abdHlmpqrstTuw", "", "all boot count heading help version", AtMost(0)),
    p("w", "fhislo", "", "from help no-header short version", Any),
    p("tty", "s", "", "help quiet silent version", AtMost(0)),
    p("uptime", "psV", "", "help pretty since version", AtMost(0)),
    p("nproc", "", "", "all help ignore= version", AtMost(0)),
    p(
        "free",
        "bkmghltwvL",
        "",
        "bytes gibi giga help human kibi lohi mebi mega si total version wide",
        AtMost(0),
    ),
    p(
        "ps",
        "aAcdefFgHjlLmMNrsSTuvwxXyZ",
        "CGkoOptU",
        "cols= columns= cumulative deselect forest \
        format= group= headers help no-headers pid= ppid= quick-pid= rows= sort= tty= user= version",
        Any,
    ),
    p(
        "pgrep",
        "aflnoxvwciL",
        "dGgPstuU",
        "count exact full group= help list-full list-name newest \
        oldest parent= uid= version",
        Any,
    ),
    p("pidof", "sxqc", "o", "", Any),
    p("lscpu", "abcexyJpV", "", "all extended? help json online parse? version", AtMost(0)),
    p(
        "lsblk",
        "abdfiJlmnOPprstV",
        "oIeEMwTxD",
        "all bytes fs help inverse json list nodeps noheadings output= paths version",
        Any,
    ),
    p("findmnt", "abCDeflnoPrtuvJ", "OSTMdi", "", Any),
    // It mounts with an operand.
    p("mount", "lV", "", "", AtMost(0)),
    p("printenv", "0", "", "help null version", Any),
    p("locale", "ackm", "", "all-locales category-name charmaps help keyword-name version", Any),
    p("getconf", "a", "v", "", AtMost(2)),
    p("sysctl", "aAbdeNnqx", "", "all names values", Without { starts: "", holds: "=" }),
    // Without `-n` these ask the network for names.
    p("lsof", "nPtlab", "icpsu", "", Needing("n")),
    p("netstat", "aeilnoprstuWv46g", "", "all listening numeric program tcp udp", Needing("n")),
    // `-c`, `-C` and `-n` clear and set.
    p("dmesg", "TkxetuJ", "lf", "ctime facility= level= time-format=", AtMost(0)),
    p("lspci", "vnkmtD", "s", "", AtMost(0)),
    p("lsusb", "tv", "sd", "", AtMost(0)),
    p("lsmod", "", "", "", AtMost(0)),
    p("whereis", "bmsugl", "", "", Any),
    // `-K` closes sockets, `-r` asks the network for names.
    p(
        "ss",
        "0468aelimnopstuwxHOSZ",
        "",
        "all extended help info listening memory numeric oneline options \
        processes summary tcp udp unix version",
        Any,
    ),
    p("which", "as", "", "all help skip-alias skip-dot skip-tilde version", Any),
    p("type", "afpPt", "", "", Any),
    p(
        "dpkg",
        "lLsSp",
        "",
        "get-selections list listfiles print-architecture print-avail search show status version",
        Needing("lLsSp"),
    ),
    p(
        "dpkg-query",
        "lLsSWp",
        "f",
        "list listfiles show showformat= status search version",
        Needing("lLsSWp"),
    ),
    // Without `--eval`, `--define`, `-e` and all that installs.
    p(
        "rpm",
        "qailcdfsR",
        "",
        "all changelog info list provides query queryformat= requires whatprovides=",
        Needing("q"),
    ),
    p(
        "journalctl",
        "abeklmqrx",
        "gnopStuUF",
        "boot? catalog grep= identifier= lines= list-boots \
        no-hostname no-pager output= pager-end priority= quiet reverse since= system unit= until= \
        user user-unit= utc",
        Any,
    ),
    p("sw_vers", "", "", "buildVersion productName productVersion", AtMost(0)),
];

/// Programs that may say their version: the name and exactly these words. Left out is what reads
/// a project's files to find out which version to run, or runs it: yarn, pnpm, mvn, gradle, pytest.
pub(super) const VERSIONS: &[(&str, &[&str])] = &[
    ("ar", DASHED),
    ("as", DASHED),
    ("aws", DASHED),
    ("az", DASHED),
    ("bash", DASHED),
    ("bat", DASHED),
    ("brew", DASHED),
    ("bun", &["--version", "-v"]),
    ("cabal", DASHED),
    ("cargo", &["--version", "-V", "-vV", "version", "--list"]),
    ("cc", DASHED),
    ("clang", DASHED),
    ("clang++", DASHED),
    ("clang-format", DASHED),
    ("clang-tidy", DASHED),
    ("cmake", DASHED),
    ("ctest", DASHED),
    ("curl", &["--version", "-V"]),
    ("deno", &["--version", "-V"]),
    ("docker", &["--version", "-v"]),
    ("docker-compose", DASHED),
    ("dotnet", DASHED),
    ("elixir", DASHED),
    ("emacs", DASHED),
    ("fd", DASHED),
    ("ffmpeg", &["-version"]),
    ("fish", DASHED),
    ("g++", DASHED),
    ("gawk", DASHED),
    ("gcc", DASHED),
    ("gdb", DASHED),
    ("gem", DASHED),
    ("gh", &["--version", "version"]),
    ("ghc", DASHED),
    ("go", &["version"]),
    ("helm", &["version", "--version"]),
    ("htop", DASHED),
    ("java", &["-version", "--version"]),
    ("javac", &["-version", "--version"]),
    ("kotlin", &["-version"]),
    ("kotlinc", &["-version"]),
    ("kubectl", &["--version"]),
    ("ld", DASHED),
    ("lld", DASHED),
    ("lldb", DASHED),
    ("llc", DASHED),
    ("lua", &["-v"]),
    ("luajit", &["-v"]),
    ("make", &["--version", "-v"]),
    ("gmake", DASHED),
    ("meson", DASHED),
    ("mypy", DASHED),
    ("mysql", &["--version", "-V"]),
    ("nano", DASHED),
    ("nasm", &["-v"]),
    ("nginx", &["-v"]),
    ("ninja", DASHED),
    ("node", &["--version", "-v"]),
    ("npm", &["--version", "-v"]),
    ("nvim", DASHED),
    ("ocaml", &["-version", "--version"]),
    ("opam", DASHED),
    ("openssl", &["version"]),
    ("pandoc", DASHED),
    ("perl", &["--version", "-v"]),
    ("php", &["--version", "-v"]),
    ("pip", DASHED),
    ("pip3", DASHED),
    ("pipx", DASHED),
    ("pkg-config", DASHED),
    ("protoc", DASHED),
    ("psql", &["--version", "-V"]),
    ("python", PYTHON),
    ("python2", PYTHON),
    ("python3", PYTHON),
    ("redis-cli", &["--version", "-v"]),
    ("redis-server", &["--version", "-v"]),
    ("ruby", &["--version", "-v"]),
    ("ruff", DASHED),
    ("rust-analyzer", DASHED),
    ("rustc", &["--version", "-V", "-vV", "--version --verbose"]),
    ("rustfmt", DASHED),
    (
        "rustup",
        &[
            "--version",
            "-V",
            "toolchain list",
            "target list --installed",
            "component list --installed",
        ],
    ),
    ("sbcl", DASHED),
    ("sed", DASHED),
    ("sh", DASHED),
    ("shellcheck", DASHED),
    ("sqlite3", DASHED),
    ("ssh", &["-V"]),
    ("sudo", &["--version", "-V"]),
    ("swift", DASHED),
    ("tar", DASHED),
    ("tmux", &["-V"]),
    ("tree-sitter", DASHED),
    ("uv", &["--version", "-V"]),
    ("valgrind", DASHED),
    ("vim", DASHED),
    ("wget", DASHED),
    ("zig", &["version"]),
    ("zsh", DASHED),
    ("awk", DASHED),
    ("find", DASHED),
    ("git", &["--version", "version", "-v"]),
    ("xargs", DASHED),
    // Bare, these print what holds; with more they change it.
    ("alias", &[""]),
    ("env", &[""]),
    ("jobs", &[""]),
    ("times", &[""]),
    ("ulimit", &["-a", "-n", "-Sa", "-Ha", ""]),
    ("umask", &["", "-S"]),
    ("history", &[""]),
    ("top", &["-b -n 1", "-bn1", "-b -n1"]),
    ("crontab", &["-l"]),
    ("launchctl", &["list"]),
    ("xcode-select", &["-p", "--print-path"]),
    ("apt", &["list --installed"]),
    ("timedatectl", &["", "status"]),
    ("hostnamectl", &["", "status"]),
    ("nvidia-smi", &["", "-L"]),
    ("tsc", &["--version", "-v"]),
    ("vmstat", &[""]),
    ("ifconfig", &["", "-a"]),
];

const DASHED: &[&str] = &["--version"];
const PYTHON: &[&str] = &["--version", "-V", "-VV"];

/// Programs of many commands: the program, the command, and the options the command takes.
pub(super) const SUBCOMMANDS: &[(&str, Program<'static>)] = &[
    ("apt-cache", p("policy", "", "", "", Any)),
    ("apt-cache", p("show", "", "", "", Any)),
    ("apt-cache", p("search", "n", "", "names-only", Any)),
    ("apt-cache", p("depends", "", "", "", Any)),
    // Names of databases that no server answers.
    ("getent", p("passwd", "", "", "", Any)),
    ("getent", p("group", "", "", "", Any)),
    ("go", p("env", "", "", "json", Without { starts: "", holds: "=" })),
    ("pip", p("list", "", "", "format=", AtMost(0))),
    ("pip", p("show", "f", "", "files", Any)),
    ("pip3", p("list", "", "", "format=", AtMost(0))),
    ("pip3", p("show", "f", "", "files", Any)),
    // Without `-H` and `-M`, which go to other machines.
    ("systemctl", p("status", "laq", "n", "all full lines= no-pager user", Any)),
    ("systemctl", p("is-active", "q", "", "quiet user", Any)),
    ("systemctl", p("is-enabled", "q", "", "quiet user", Any)),
    ("systemctl", p("is-failed", "q", "", "quiet user", Any)),
    ("systemctl", p("list-units", "aq", "t", "all failed no-pager state= type= user", Any)),
    ("systemctl", p("list-unit-files", "", "t", "no-pager state= type= user", Any)),
    ("systemctl", p("list-timers", "a", "", "all no-pager user", Any)),
    ("systemctl", p("show", "", "p", "no-pager property= user value", Any)),
    ("ip", p("a", "", "", "", AtMost(0))),
    ("ip", p("addr", "", "", "", AtMost(0))),
    ("ip", p("address", "", "", "", AtMost(0))),
    ("ip", p("link", "", "", "", AtMost(0))),
    ("ip", p("r", "", "", "", AtMost(0))),
    ("ip", p("route", "", "", "", AtMost(0))),
    ("ip", p("neigh", "", "", "", AtMost(0))),
];
