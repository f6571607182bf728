//! Entry points for fuzzers: each takes any bytes and panics when a promise is broken.

use super::rewrite::Rewriter;

/// Any bytes as an HTML body that comes in pieces of any size: where no address is changed nothing is, and where some are,
/// the pieces do not matter. Tells whether it had a link.
pub fn rewritten_links(data: &[u8]) -> bool {
    let (size, html) = data.split_first().map_or((1, data), |(size, html)| (usize::from(*size).max(1), html));
    let same = pieces(Rewriter::new(Box::new(|_| None), String::new()), html, size);
    assert_eq!(same, html);
    let changed =
        || Rewriter::new(Box::new(|target: &str| Some(format!("https://t/{}", target.len()))), "<img>".into());
    let (whole, cut) = (pieces(changed(), html, html.len().max(1)), pieces(changed(), html, size));
    assert_eq!(whole, cut);
    memchr::memmem::find(&whole, b"https://t/").is_some()
}

fn pieces(mut rewriter: Rewriter, html: &[u8], size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    html.chunks(size).for_each(|piece| rewriter.push(piece, &mut out));
    rewriter.finish(&mut out);
    out
}
