//! What a client says, read.

use super::reply::Reply;
use crate::mime::Address;

/// In bytes, with the line break (RFC 5321, 4.5.3.1.4).
const LONGEST: usize = 512;

#[derive(Debug, PartialEq, Eq)]
pub enum Command<'a> {
    Hello {
        name: &'a str,
        is_extended: bool,
    },
    Auth {
        mechanism: &'a str,
        initial: Option<&'a str>,
    },
    StartTls,
    Mail {
        /// Empty where nobody is to be told what becomes of it.
        sender: &'a str,
        smtputf8: bool,
    },
    Recipient(Address),
    Data,
    /// Some of a message follows, so many bytes.
    Chunk {
        size: u64,
        is_last: bool,
    },
    Reset,
    Noop,
    Verify,
    Help,
    Quit,
}

impl<'a> Command<'a> {
    /// Reads a line, without its end. No message may be larger than `largest`.
    pub fn parse(line: &'a [u8], largest: u64) -> Result<Command<'a>, Reply> {
        let unknown = Reply::new(500, "5.5.1 This command is not known here.");
        let line = str::from_utf8(line).map_err(|_| unknown.clone())?;
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (verb, rest) = (verb.to_ascii_uppercase(), rest.trim());
        if line.len() + 2 > LONGEST && verb != "AUTH" {
            return Err(Reply::new(500, "5.5.2 A line must have at most 512 bytes."));
        }
        if line.contains(char::is_control) {
            return Err(Reply::new(501, "5.5.2 A command must not hold control characters."));
        }
        let alone = |command| match rest {
            "" => Ok(command),
            _ => Err(Reply::told(501, format!("5.5.4 Nothing may stand behind {verb}."))),
        };
        match verb.as_str() {
            "EHLO" | "HELO" if rest.is_empty() => {
                Err(Reply::told(501, format!("5.5.4 Write `{verb} your.host.name`.")))
            }
            "EHLO" | "HELO" => Ok(Command::Hello { name: rest, is_extended: verb == "EHLO" }),
            "AUTH" => {
                let mut words = rest.split_ascii_whitespace();
                match (words.next(), words.next(), words.next()) {
                    (Some(mechanism), initial, None) => Ok(Command::Auth { mechanism, initial }),
                    _ => Err(Reply::new(501, "5.5.4 Write `AUTH PLAIN` or `AUTH LOGIN`.")),
                }
            }
            "STARTTLS" => alone(Command::StartTls),
            "MAIL" => mail(rest, largest),
            "RCPT" => recipient(rest),
            "DATA" => alone(Command::Data),
            "BDAT" => chunk(rest),
            "RSET" => alone(Command::Reset),
            "NOOP" => Ok(Command::Noop),
            "VRFY" => Ok(Command::Verify),
            "HELP" => Ok(Command::Help),
            "QUIT" => alone(Command::Quit),
            "EXPN" | "TURN" | "ETRN" | "SEND" | "SOML" | "SAML" => Err(Reply::new(502, "5.5.1 This is not done here.")),
            _ => Err(unknown),
        }
    }
}

/// What stands between angle brackets behind a word, and what stands behind those.
fn path<'a>(rest: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let (before, path) = rest.split_at_checked(word.len())?;
    let path = path.trim_start().strip_prefix('<').filter(|_| before.eq_ignore_ascii_case(word))?;
    let (path, behind) = path.split_once('>')?;
    (behind.is_empty() || behind.starts_with(' ')).then_some((path, behind))
}

/// The address is not looked at, beyond whether there is one.
fn mail(rest: &str, largest: u64) -> Result<Command<'_>, Reply> {
    let (sender, parameters) = path(rest, "FROM:").ok_or(Reply::new(501, "5.5.4 Write `MAIL FROM:<your@address>`."))?;
    let mut smtputf8 = false;
    for parameter in parameters.split_ascii_whitespace() {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match name.to_ascii_uppercase().as_str() {
            "SIZE" => match value.parse::<u64>() {
                Ok(size) if size <= largest => {}
                Ok(_) => {
                    let text = format!("5.3.4 The message is too large. At most {largest} bytes are allowed.");
                    return Err(Reply::told(552, text));
                }
                Err(_) => return Err(Reply::new(501, "5.5.4 SIZE must be a number of bytes.")),
            },
            "BODY" if value.eq_ignore_ascii_case("7BIT") || value.eq_ignore_ascii_case("8BITMIME") => {}
            "SMTPUTF8" if value.is_empty() => smtputf8 = true,
            // Who handed it in elsewhere (RFC 4954); nobody here believes it.
            "AUTH" => {}
            _ => return Err(Reply::new(555, "5.5.4 MAIL takes SIZE, BODY=7BIT, BODY=8BITMIME and SMTPUTF8.")),
        }
    }
    if !sender.is_ascii() && !smtputf8 {
        return Err(Reply::new(553, "5.6.7 An address that is not ASCII needs SMTPUTF8 behind it."));
    }
    Ok(Command::Mail { sender, smtputf8 })
}

fn recipient(rest: &str) -> Result<Command<'_>, Reply> {
    let (address, parameters) = path(rest, "TO:").ok_or(Reply::new(501, "5.5.4 Write `RCPT TO:<their@address>`."))?;
    if !parameters.trim().is_empty() {
        return Err(Reply::new(555, "5.5.4 RCPT takes no parameters here."));
    }
    let address: Result<Address, String> = address.parse();
    address.map(Command::Recipient).map_err(|flaw| Reply::told(553, format!("5.1.3 The recipient {flaw}.")))
}

fn chunk(rest: &str) -> Result<Command<'_>, Reply> {
    let mut words = rest.split_ascii_whitespace();
    let size = words.next().and_then(|size| size.parse().ok());
    let is_last = match words.next() {
        None => Some(false),
        Some(word) => word.eq_ignore_ascii_case("LAST").then_some(true),
    };
    match (size, is_last, words.next()) {
        (Some(size), Some(is_last), None) => Ok(Command::Chunk { size, is_last }),
        _ => Err(Reply::new(501, "5.5.4 Write `BDAT bytes` or `BDAT bytes LAST`.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGEST: u64 = 40 << 20;

    fn code(line: &str) -> u16 {
        Command::parse(line.as_bytes(), LARGEST).err().map_or(0, |reply| reply.code)
    }

    #[test]
    fn commands_are_read_in_any_case_and_with_spaces_where_clients_put_them() {
        let read = |line: &'static str| Command::parse(line.as_bytes(), LARGEST).expect(line);
        assert_eq!(read("ehlo [127.0.0.1]"), Command::Hello { name: "[127.0.0.1]", is_extended: true });
        assert_eq!(read("AUTH PLAIN AA=="), Command::Auth { mechanism: "PLAIN", initial: Some("AA==") });
        assert_eq!(read("mail from: <> size=10 BODY=8bitmime"), Command::Mail { sender: "", smtputf8: false });
        let sender = "ü@b.example";
        assert_eq!(read("MAIL FROM:<ü@b.example> SMTPUTF8"), Command::Mail { sender, smtputf8: true });
        assert_eq!(read("RCPT TO:<a@b.example>"), Command::Recipient("a@b.example".parse().expect("an address")));
        assert_eq!(read("BDAT 12 last"), Command::Chunk { size: 12, is_last: true });
        assert_eq!(read("NOOP whatever"), Command::Noop);
    }

    #[test]
    fn what_cannot_be_read_is_told_what_to_write() {
        for (line, expected) in [
            ("", 500),
            ("EHLO", 501),
            ("HELLO there", 500),
            ("MAIL FROM:a@b.example", 501),
            ("MAIL TO:<a@b.example>", 501),
            ("MAIL FROM:<a@b.example>SIZE=1", 501),
            ("MAIL FROM:<a@b.example> SIZE=41943041", 552),
            ("MAIL FROM:<a@b.example> SIZE=-1", 501),
            ("MAIL FROM:<a@b.example> BODY=BINARYMIME", 555),
            ("MAIL FROM:<a@b.example> RET=FULL", 555),
            ("MAIL FROM:<ü@b.example>", 553),
            ("RCPT TO:<a@b.example> NOTIFY=NEVER", 555),
            ("RCPT TO:<Postmaster>", 553),
            ("RCPT TO:<a@[127.0.0.1]>", 553),
            ("RCPT TO:<@x.example:a@b.example>", 553),
            ("BDAT", 501),
            ("BDAT x LAST", 501),
            ("BDAT 1 FIRST", 501),
            ("DATA now", 501),
            ("EXPN list", 502),
            ("NOOP \u{7}", 501),
        ] {
            assert_eq!(code(line), expected, "{line}");
        }
        assert_eq!(code(&format!("NOOP {}", "x".repeat(505))), 0);
        assert_eq!(code(&format!("NOOP {}", "x".repeat(506))), 500);
        assert_eq!(code(&format!("AUTH PLAIN {}", "x".repeat(9_000))), 0);
    }
}
