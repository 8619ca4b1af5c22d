//! Prints the figures of all subjects side by side: medians, ratio, goal.

use crate::scenario::{Kind, Subject};

/// Each figure with its unit and the ratio to the peer that is wanted, in the order shown.
const ROWS: &[(&str, &str, Option<f64>)] = &[
    ("version wall", "ms", Some(0.25)),
    ("one turn wall", "ms", Some(0.08)),
    ("start to first request", "ms", Some(0.06)),
    ("last byte to exit", "ms", Some(0.15)),
    ("one turn CPU", "ms", Some(0.06)),
    ("one turn peak memory", "MiB", Some(0.10)),
    ("first request body", "kB", Some(0.40)),
    ("last request body, ten tool turns", "kB", None),
    ("connections, ten tool turns", "", None),
    ("gap per tool turn, sandboxed", "ms", Some(0.12)),
    ("gap per tool turn, no sandbox", "ms", Some(0.12)),
    ("many deltas wall", "ms", Some(0.12)),
    ("many deltas CPU", "ms", Some(0.08)),
    ("many deltas peak memory", "MiB", None),
];
/// The largest binary that is wanted.
const BINARY_BYTES_MAX: u64 = 20_000_000;

pub(crate) fn print(subjects: &[Subject]) {
    let of = |kind: Kind| subjects.iter().find(|subject| subject.kind == kind);
    let (ours, peer) = (of(Kind::Gimlet), of(Kind::Peer));
    println!("{:<36} {:>10} {:>10} {:>7} {:>6}", "median", "gimlet", "peer", "ratio", "goal");
    for (name, unit, goal) in ROWS {
        let figure = |subject: Option<&Subject>| {
            subject.and_then(|s| median(s.figures.get(name)?.as_slice()))
        };
        let (a, b) = (figure(ours), figure(peer));
        let ratio = a.zip(b).map(|(a, b)| a / b);
        let verdict = match (ratio, goal) {
            (Some(ratio), Some(goal)) if ratio > *goal => "missed",
            _ => "",
        };
        let label = if unit.is_empty() { (*name).to_owned() } else { format!("{name} ({unit})") };
        println!(
            "{label:<36} {:>10} {:>10} {:>7} {:>6} {verdict}",
            shown(a, 2),
            shown(b, 2),
            shown(ratio, 3),
            shown(*goal, 2)
        );
    }
    if let Some(bytes) =
        ours.and_then(|ours| std::fs::metadata(&ours.program).ok()).map(|m| m.len())
    {
        let verdict = if bytes > BINARY_BYTES_MAX { "missed" } else { "" };
        println!("binary: {bytes} bytes, goal at most {BINARY_BYTES_MAX} {verdict}");
    }
}

pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

pub(crate) fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}
