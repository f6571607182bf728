//! Text as the parameters of commands carry it (RFC 3461, 4), and addresses in any script (RFC 6533, 3).

/// The longest address that a command is made longer by (RFC 3461, 4.2).
const LONGEST_RECIPIENT: usize = 500;

pub(super) fn xtext(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'!'..=b'~' if byte != b'+' && byte != b'=' => written.push(char::from(byte)),
            _ => written += &format!("+{byte:02X}"),
        }
    }
    written
}

/// An address as it was before anybody on the way changes it, with its type; `None` where it is too long to be told.
pub(super) fn original_recipient(address: &str) -> Option<String> {
    let told = match address.is_ascii() {
        true => format!("rfc822;{}", xtext(address)),
        false => format!("utf-8;{}", in_ascii(address)),
    };
    Some(told).filter(|told| told.len() <= LONGEST_RECIPIENT)
}

/// What is not ASCII, and what parameters give a meaning to, by its number.
fn in_ascii(address: &str) -> String {
    let mut written = String::with_capacity(2 * address.len());
    for char in address.chars() {
        match char {
            '!'..='~' if !matches!(char, '+' | '=' | '\\') => written.push(char),
            _ => written += &format!("\\x{{{:X}}}", u32::from(char)),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What was written, as RFC 3461 has it read.
    fn read(written: &str) -> Option<String> {
        let (mut bytes, mut rest) = (Vec::new(), written.as_bytes());
        while let Some((first, behind)) = rest.split_first() {
            rest = behind;
            if *first != b'+' {
                bytes.push(*first);
                continue;
            }
            let (digits, behind) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?);
            rest = behind;
        }
        String::from_utf8(bytes).ok()
    }

    /// The same of an address in any script, as RFC 6533 has it.
    fn read_address(written: &str) -> Option<String> {
        let (mut address, mut rest) = (String::new(), written);
        while let Some((before, behind)) = rest.split_once("\\x{") {
            let (number, behind) = behind.split_once('}')?;
            address += before;
            address.push(char::from_u32(u32::from_str_radix(number, 16).ok()?)?);
            rest = behind;
        }
        Some(address + rest)
    }

    #[test]
    fn what_has_a_meaning_in_commands_is_told_by_its_number() {
        assert_eq!(xtext("ada+news=x@example.com"), "ada+2Bnews+3Dx@example.com");
        assert_eq!(xtext("a b\r\n<\u{7f}>é"), "a+20b+0D+0A<+7F>+C3+A9");
        assert_eq!(original_recipient("ada+b@example.com").as_deref(), Some("rfc822;ada+2Bb@example.com"));
        assert_eq!(
            original_recipient("jürgen+=\\@x.example").as_deref(),
            Some(r"utf-8;j\x{FC}rgen\x{2B}\x{3D}\x{5C}@x.example")
        );
        assert_eq!(original_recipient(&"+".repeat(200)), None);
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_one_word_and_reads_as_it_was(text in any::<String>()) {
            let written = xtext(&text);
            prop_assert!(written.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'='), "{}", written);
            prop_assert_eq!(read(&written), Some(text));
        }

        #[test]
        fn so_does_an_address(text in "[!-~À-￼😀]{1,20}@[a-z]{1,9}") {
            let Some(told) = original_recipient(&text) else { return Ok(()) };
            prop_assert!(told.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'='), "{}", told);
            let (kind, written) = told.split_once(';').expect("a type");
            let back = if kind == "rfc822" { read(written) } else { read_address(written) };
            prop_assert_eq!(back, Some(text));
        }
    }
}
