//! The command line as it explains itself: what a command does on one screen, and all settings, which every command
//! takes, on the page of the one that they are for.

use clap::{Arg, Command, CommandFactory};

use super::Cli;

/// The command that shows the settings.
const SHOWS_SETTINGS: &str = "serve";

const FOOTER: &str = "Every command takes the settings of the server, such as --data-dir, as flags or from the \
                      environment: see `posthorn serve --help`.";

pub fn command_line() -> Command {
    // Whatever the file is called.
    let whole = Cli::command().bin_name("posthorn");
    let settings: Vec<Arg> = whole.get_arguments().filter(|arg| is_setting(arg)).cloned().collect();
    let hidden = whole.mut_args(|arg| if is_setting(&arg) { arg.hide(true) } else { arg });
    // What a command has of its own is not taken from the one above it.
    with_footer(hidden.mut_subcommand(SHOWS_SETTINGS, |serve| serve.args(settings)))
}

fn is_setting(arg: &Arg) -> bool {
    arg.get_env().is_some()
}

fn with_footer(command: Command) -> Command {
    match command.get_name() {
        SHOWS_SETTINGS => command,
        _ => command.after_help(FOOTER).mut_subcommands(with_footer),
    }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;

    /// As many lines as a terminal shows that nobody has enlarged much.
    const SCREEN: usize = 40;

    fn help(words: &[&str]) -> String {
        let line = ["posthorn"].iter().chain(words).chain(&["--help"]);
        command_line().try_get_matches_from(line).expect_err("help").to_string()
    }

    /// A command and all below it, each as the words that lead there.
    fn all_below<'a>(command: &'a Command, words: &[&'a str]) -> Vec<Vec<&'a str>> {
        let below = command.get_subcommands().flat_map(|one| all_below(one, &[words, &[one.get_name()]].concat()));
        std::iter::once(words.to_vec()).chain(below).collect()
    }

    #[test]
    fn issue_15_help_fits_a_screen_and_the_settings_have_a_page_of_their_own() {
        let whole = command_line();
        let commands = all_below(&whole, &[]);
        assert!(commands.len() > 40, "{commands:?}");
        for words in commands.iter().filter(|words| words[..] != [SHOWS_SETTINGS]) {
            let shown = help(words);
            assert!(shown.lines().count() <= SCREEN, "{words:?}: {} lines\n{shown}", shown.lines().count());
            assert!(!shown.contains("--write-queue") && shown.contains("posthorn serve --help"), "{shown}");
        }
        let settings = help(&["serve"]);
        for setting in Cli::command().get_arguments().filter(|arg| is_setting(arg) && !arg.is_hide_set()) {
            let flag = format!("--{}", setting.get_long().unwrap_or_default());
            let variable = setting.get_env().and_then(|name| name.to_str()).unwrap_or_default();
            assert!(settings.contains(&flag) && settings.contains(variable), "{flag}, {variable}");
        }
    }

    #[test]
    fn a_setting_is_taken_before_and_behind_every_command() {
        for line in [
            &["posthorn", "--readers", "7", "serve"][..],
            &["posthorn", "serve", "--readers", "7"],
            &["posthorn", "--readers", "7", "keys", "list"],
            &["posthorn", "keys", "list", "--readers", "7"],
            &["posthorn", "--readers", "7"],
        ] {
            let matches = command_line().try_get_matches_from(line).expect("a command");
            assert_eq!(Cli::from_arg_matches(&matches).expect("settings").config.readers, 7, "{line:?}");
        }
    }
}
