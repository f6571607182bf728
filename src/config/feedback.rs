//! The settings of what comes back otherwise than to a mail's return path.

use std::str::FromStr;

use clap::Args;

use crate::mime::Address;

/// Who reports by HTTP, and where complaints go that are not sent to a return path.
#[derive(Args, Debug, Clone)]
pub struct FeedbackSettings {
    /// Amazon SNS topics of which what Amazon SES reports is taken, comma-separated: arn:aws:sns:REGION:ACCOUNT:NAME
    /// [default: none]
    #[arg(long, global = true, env = "POSTHORN_SES_TOPIC", value_delimiter = ',', value_name = "ARN")]
    pub ses_topic: Vec<SnsTopic>,

    /// Key with which Mailgun signs its webhooks; with it, what Mailgun reports is taken
    #[arg(long, global = true, env = "POSTHORN_MAILGUN_SIGNING_KEY", value_name = "KEY")]
    #[arg(hide_env_values = true, allow_hyphen_values = true)]
    #[arg(value_parser = shared_secret)]
    pub mailgun_signing_key: Option<String>,

    /// Secret that Postmark shows, in the address or as the password of Basic; with it, what Postmark reports is taken
    #[arg(long, global = true, env = "POSTHORN_POSTMARK_SECRET", value_name = "TEXT")]
    #[arg(hide_env_values = true, allow_hyphen_values = true)]
    #[arg(value_parser = shared_secret)]
    pub postmark_secret: Option<String>,

    /// Address that is registered with feedback loops; --inbound-listen takes complaints for it [default: none]
    #[arg(long, global = true, env = "POSTHORN_COMPLAINTS_TO", value_name = "ADDRESS")]
    pub complaints_to: Option<Address>,
}

impl FeedbackSettings {
    /// Whether a relay reports by HTTP.
    pub fn report_by_http(&self) -> bool {
        !self.ses_topic.is_empty() || self.mailgun_signing_key.is_some() || self.postmark_secret.is_some()
    }
}

/// A topic of Amazon SNS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnsTopic {
    pub arn: String,
    /// Who speaks for it: the only host that is asked for certificates, and with which it is subscribed to.
    pub host: String,
}

impl FromStr for SnsTopic {
    type Err = String;

    fn from_str(given: &str) -> Result<SnsTopic, String> {
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        let is_region = |word: &str| {
            (3..=32).contains(&word.len())
                && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        };
        let parts: Vec<&str> = given.split(':').collect();
        match parts.as_slice() {
            ["arn", partition @ ("aws" | "aws-cn" | "aws-us-gov"), "sns", region, account, name]
                if is_region(region) && is_word(account) && is_word(name) =>
            {
                let end = if *partition == "aws-cn" { ".cn" } else { "" };
                Ok(SnsTopic { arn: given.to_owned(), host: format!("sns.{region}.amazonaws.com{end}") })
            }
            _ => Err("allowed is the ARN of a topic, such as arn:aws:sns:eu-west-1:123456789012:mail".into()),
        }
    }
}

/// It may stand in an address.
fn shared_secret(given: &str) -> Result<String, String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    match (16..=200).contains(&given.len()) && given.bytes().all(is_part) {
        true => Ok(given.to_owned()),
        false => Err("allowed are 16 to 200 letters, digits and -_.~".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_says_who_speaks_for_it() {
        let host = |arn: &str| arn.parse::<SnsTopic>().map(|topic| topic.host).ok();
        assert_eq!(host("arn:aws:sns:eu-west-1:123456789012:mail").as_deref(), Some("sns.eu-west-1.amazonaws.com"));
        assert_eq!(host("arn:aws-cn:sns:cn-north-1:1:mail").as_deref(), Some("sns.cn-north-1.amazonaws.com.cn"));
        for wrong in [
            "",
            "mail",
            "arn:aws:sqs:eu-west-1:1:mail",
            "arn:aws:sns:evil.example/:1:mail",
            "arn:aws:sns:a@b:1:mail",
            "arn:aws:sns:eu-west-1:1:mail:more",
            "arn:other:sns:eu-west-1:1:mail",
        ] {
            assert_eq!(host(wrong), None, "{wrong}");
        }
    }
}
