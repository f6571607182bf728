//! Character references of HTML: `&amp;`, `&#8364;`, `&#x20AC;`.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};

/// A longer name is none.
const LONGEST: usize = 10;

/// Those that mail is written with. Others stay as they are.
const NAMES: &[(&str, char)] = &[
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", '\u{a0}'),
    ("shy", '\u{ad}'),
    ("zwj", '\u{200d}'),
    ("zwnj", '\u{200c}'),
    ("ensp", '\u{2002}'),
    ("emsp", '\u{2003}'),
    ("thinsp", '\u{2009}'),
    ("ndash", '–'),
    ("mdash", '—'),
    ("hellip", '…'),
    ("bull", '•'),
    ("middot", '·'),
    ("prime", '′'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("sbquo", '‚'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("bdquo", '„'),
    ("laquo", '«'),
    ("raquo", '»'),
    ("lsaquo", '‹'),
    ("rsaquo", '›'),
    ("copy", '©'),
    ("reg", '®'),
    ("trade", '™'),
    ("euro", '€'),
    ("pound", '£'),
    ("yen", '¥'),
    ("cent", '¢'),
    ("sect", '§'),
    ("para", '¶'),
    ("deg", '°'),
    ("plusmn", '±'),
    ("times", '×'),
    ("divide", '÷'),
    ("minus", '−'),
    ("frac12", '½'),
    ("frac14", '¼'),
    ("frac34", '¾'),
    ("sup2", '²'),
    ("sup3", '³'),
    ("micro", 'µ'),
    ("larr", '←'),
    ("uarr", '↑'),
    ("rarr", '→'),
    ("darr", '↓'),
    ("harr", '↔'),
    ("check", '✓'),
    ("star", '☆'),
    ("iexcl", '¡'),
    ("iquest", '¿'),
    ("ordf", 'ª'),
    ("ordm", 'º'),
    ("szlig", 'ß'),
    ("oelig", 'œ'),
    ("OElig", 'Œ'),
    ("agrave", 'à'),
    ("aacute", 'á'),
    ("acirc", 'â'),
    ("atilde", 'ã'),
    ("auml", 'ä'),
    ("aring", 'å'),
    ("aelig", 'æ'),
    ("ccedil", 'ç'),
    ("egrave", 'è'),
    ("eacute", 'é'),
    ("ecirc", 'ê'),
    ("euml", 'ë'),
    ("igrave", 'ì'),
    ("iacute", 'í'),
    ("icirc", 'î'),
    ("iuml", 'ï'),
    ("ntilde", 'ñ'),
    ("ograve", 'ò'),
    ("oacute", 'ó'),
    ("ocirc", 'ô'),
    ("otilde", 'õ'),
    ("ouml", 'ö'),
    ("oslash", 'ø'),
    ("ugrave", 'ù'),
    ("uacute", 'ú'),
    ("ucirc", 'û'),
    ("uuml", 'ü'),
    ("yacute", 'ý'),
    ("yuml", 'ÿ'),
    ("eth", 'ð'),
    ("thorn", 'þ'),
    ("Agrave", 'À'),
    ("Aacute", 'Á'),
    ("Acirc", 'Â'),
    ("Atilde", 'Ã'),
    ("Auml", 'Ä'),
    ("Aring", 'Å'),
    ("AElig", 'Æ'),
    ("Ccedil", 'Ç'),
    ("Egrave", 'È'),
    ("Eacute", 'É'),
    ("Ecirc", 'Ê'),
    ("Euml", 'Ë'),
    ("Igrave", 'Ì'),
    ("Iacute", 'Í'),
    ("Icirc", 'Î'),
    ("Iuml", 'Ï'),
    ("Ntilde", 'Ñ'),
    ("Ograve", 'Ò'),
    ("Oacute", 'Ó'),
    ("Ocirc", 'Ô'),
    ("Otilde", 'Õ'),
    ("Ouml", 'Ö'),
    ("Oslash", 'Ø'),
    ("Ugrave", 'Ù'),
    ("Uacute", 'Ú'),
    ("Ucirc", 'Û'),
    ("Uuml", 'Ü'),
    ("Yacute", 'Ý'),
    ("ETH", 'Ð'),
    ("THORN", 'Þ'),
];

/// What numbers from 128 to 159 are taken for: old texts meant Windows-1252.
const WINDOWS: &str = "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}Ž\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}žŸ";

pub(super) fn decoded(text: &str) -> Cow<'_, str> {
    let Some(first) = memchr(b'&', text.as_bytes()) else { return text.into() };
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut next = Some(first);
    while let Some(at) = next {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let window = &rest.as_bytes()[..rest.len().min(LONGEST + 1)];
        let found = memchr(b';', window).and_then(|end| Some((character(&rest[..end])?, end + 1)));
        match found {
            Some((c, end)) => {
                out.push(c);
                rest = &rest[end..];
            }
            None => out.push('&'),
        }
        next = memchr(b'&', rest.as_bytes());
    }
    out.push_str(rest);
    out.into()
}

/// The same of an attribute, where it is certain: `None` where a browser may read a reference that is not known here, or
/// one that lacks its `;`.
pub fn decoded_surely(text: &str) -> Option<Cow<'_, str>> {
    let is_doubtful = |at: usize| {
        let rest = &text[at + 1..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '#').unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        match behind.as_bytes().first() {
            _ if name.is_empty() => false,
            Some(b';') => name.len() > LONGEST || character(name).is_none(),
            Some(b'=') => name.starts_with('#'),
            _ => name.starts_with('#') || character(name).is_some(),
        }
    };
    let is_sure = !memchr_iter(b'&', text.as_bytes()).any(is_doubtful);
    is_sure.then(|| decoded(text))
}

/// Of what stands between `&` and `;`.
fn character(name: &str) -> Option<char> {
    let Some(number) = name.strip_prefix('#') else {
        return NAMES.iter().find(|(known, _)| *known == name).map(|(_, c)| *c);
    };
    let number = match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => number.parse().ok()?,
    };
    match number {
        0 => None,
        128..=159 => WINDOWS.chars().nth(number as usize - 128),
        number => char::from_u32(number),
    }
}
