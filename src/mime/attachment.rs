//! What is attached to a message: its names and its kind. Its content is a part of the store.

use super::header::check_line;

/// In characters and in bytes.
const LONGEST_FILENAME: usize = 255;
const LONGEST: usize = 255;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachmentInfo {
    pub filename: Option<String>,
    pub content_type: String,
    /// By which HTML names it: `<img src="cid:…">`.
    pub content_id: Option<String>,
    /// Where the content stands, and how many bytes it has.
    pub part: i64,
    pub size: u64,
}

impl AttachmentInfo {
    pub fn check_filename(filename: &str) -> Result<(), String> {
        check_line(filename)?;
        match filename.chars().count() {
            1..=LONGEST_FILENAME => Ok(()),
            _ => Err("must have 1 to 255 characters".into()),
        }
    }

    pub fn check_content_type(content_type: &str) -> Result<(), String> {
        let wrong = || "must be a media type such as `image/png` or `text/csv; charset=utf-8`".to_owned();
        content_type_words(content_type).map(drop).ok_or_else(wrong)
    }

    pub fn check_content_id(content_id: &str) -> Result<(), String> {
        let id = inner_id(content_id);
        if !id.is_empty() && id.len() <= LONGEST && id.bytes().all(is_id_byte) {
            Ok(())
        } else {
            Err("must be 1 to 255 visible ASCII characters other than < and >".into())
        }
    }

    /// The words of the field that tells its kind. What would be a message within the message
    /// must not be in base64 (RFC 2046), so it goes as a file.
    pub(super) fn content_type(&self) -> Vec<String> {
        content_type_words(&self.content_type)
            .filter(|words| !words[0].starts_with("multipart/") && !words[0].starts_with("message/"))
            .unwrap_or_else(|| vec!["application/octet-stream".to_owned()])
    }

    /// With its angle brackets.
    pub(super) fn content_id(&self) -> Option<String> {
        let id = inner_id(self.content_id.as_deref()?);
        let id: String = id.bytes().filter(|byte| is_id_byte(*byte)).map(char::from).take(LONGEST).collect();
        (!id.is_empty()).then(|| format!("<{id}>"))
    }
}

fn inner_id(id: &str) -> &str {
    id.strip_prefix('<').and_then(|id| id.strip_suffix('>')).unwrap_or(id)
}

fn is_id_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'<' && byte != b'>'
}

/// A media type in the words in which it may be folded, in lower case up to its parameters.
fn content_type_words(text: &str) -> Option<Vec<String>> {
    if text.len() > LONGEST {
        return None;
    }
    let mut parts = text.split(';').map(str::trim);
    let essence = parts.next()?.to_ascii_lowercase();
    let (kind, subtype) = essence.split_once('/')?;
    let mut words = (is_token(kind) && is_token(subtype)).then(|| vec![essence.clone()])?;
    for parameter in parts {
        let (name, value) = parameter.split_once('=')?;
        let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        let is_value = quoted.map_or_else(|| is_token(value), |value| value.bytes().all(is_quotable));
        if !is_token(name) || !is_value {
            return None;
        }
        words.last_mut()?.push(';');
        words.push(parameter.to_owned());
    }
    Some(words)
}

/// RFC 2045.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&byte))
}

fn is_quotable(byte: u8) -> bool {
    (byte.is_ascii_graphic() || byte == b' ') && byte != b'"' && byte != b'\\'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_is_one_or_is_refused() {
        for good in ["image/png", "TEXT/CSV", "text/csv; charset=utf-8", "text/calendar;method=REQUEST; name=\"a b\""] {
            assert_eq!(AttachmentInfo::check_content_type(good), Ok(()), "{good}");
        }
        for bad in
            ["", "image", "image/", "/png", "a/b/c", "image/png\r\nX: y", "a/b;", "a/b; c", "a/b; c=\"", "ä/b", "a b/c"]
        {
            assert!(AttachmentInfo::check_content_type(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_and_ids_are_one_line() {
        assert!(AttachmentInfo::check_filename("Übersicht (1).pdf").is_ok());
        for bad in ["", "a\r\nb", "a\0", &"x".repeat(256)] {
            assert!(AttachmentInfo::check_filename(bad).is_err(), "{bad}");
        }
        for good in ["logo", "<logo@example.com>", "a.b-c"] {
            assert!(AttachmentInfo::check_content_id(good).is_ok(), "{good}");
        }
        for bad in ["", "<>", "a b", "a>b", "ä", "a\r\n", &"x".repeat(256)] {
            assert!(AttachmentInfo::check_content_id(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_slipped_through_does_no_harm() {
        let info = |content_type: &str, id: &str| AttachmentInfo {
            filename: None,
            content_type: content_type.to_owned(),
            content_id: Some(id.to_owned()),
            part: 16,
            size: 1,
        };
        assert_eq!(info("a/b; c=\r\nBcc: x", "a>\r\nBcc: x").content_type(), ["application/octet-stream"]);
        assert_eq!(info("", "a>\r\nBcc: x").content_id().as_deref(), Some("<aBcc:x>"));
        assert_eq!(info("", "\r\n").content_id(), None);
        assert_eq!(info("message/rfc822", "").content_type(), ["application/octet-stream"]);
        assert_eq!(info("Text/CSV; header=present", "").content_type(), ["text/csv;", "header=present"]);
    }
}
