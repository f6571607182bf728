//! `posthorn templates`: templates as files, one HTML file each with a short head, and a text file beside it.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};

use super::CommandContext;
use crate::config::Config;
use crate::templates::{Pushed, TemplateFile, line_diff};

#[derive(Subcommand, Debug)]
pub enum Templates {
    /// Make or change templates of the files in a directory
    Push {
        #[command(flatten)]
        place: Place,
        /// Publish them, too
        #[arg(long)]
        publish: bool,
    },
    /// Write the templates of a workspace into a directory, as they are edited
    Pull(Place),
    /// Show what a push would change; exits with 1 where there is something
    Diff(Place),
}

#[derive(Args, Debug)]
pub struct Place {
    /// Where the files are: NAME.html with a head between two lines `---`, and perhaps NAME.txt
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Id or name of the workspace, where there are several
    #[arg(long)]
    workspace: Option<String>,
}

impl Templates {
    pub async fn run(self, context: CommandContext, config: Config) -> anyhow::Result<()> {
        let place = match &self {
            Templates::Push { place, .. } | Templates::Pull(place) | Templates::Diff(place) => place,
        };
        let workspace = context.workspace(place.workspace.as_deref()).await?.id;
        let product = context.product(config)?;
        let (templates, directory) = (product.templates(), place.directory.as_path());
        match &self {
            Templates::Push { publish, .. } => {
                for file in read_all(directory)? {
                    let pushed = templates.push(workspace, &file, *publish).await;
                    let pushed = pushed.map_err(|refusal| anyhow!("{}: {}", file.stem, refusal.message()))?;
                    println!("{} {}{}", word(pushed), file.stem, if *publish { ", published" } else { "" });
                }
            }
            Templates::Pull(_) => {
                fs::create_dir_all(directory).with_context(|| format!("{} cannot be made", directory.display()))?;
                for file in templates.files(workspace).await? {
                    write(directory, &file)?;
                    println!("{}", file.stem);
                }
            }
            Templates::Diff(_) => {
                let (mut differing, mut found) = (0, HashSet::new());
                for file in read_all(directory)? {
                    let compared = templates.beside(workspace, &file).await;
                    let (before, after) =
                        compared.map_err(|refusal| anyhow!("{}: {}", file.stem, refusal.message()))?;
                    differing += usize::from(show_diff(before.as_ref(), &after));
                    found.extend(before.map(|file| file.stem));
                }
                for file in templates.files(workspace).await?.iter().filter(|file| !found.contains(&file.stem)) {
                    println!("{} is in the store alone; a push leaves it as it is", file.stem);
                }
                if differing > 0 {
                    bail!("{differing} of the templates differ");
                }
                println!("Nothing differs.");
            }
        }
        Ok(())
    }
}

fn word(pushed: Pushed) -> &'static str {
    match pushed {
        Pushed::Created => "created",
        Pushed::Changed => "changed",
        Pushed::Unchanged => "unchanged",
    }
}

/// Prints what differs, if anything does.
fn show_diff(before: Option<&TemplateFile>, after: &TemplateFile) -> bool {
    let Some(before) = before else {
        println!("{}.html is new", after.stem);
        return true;
    };
    let text = |file: &TemplateFile| file.text.clone().unwrap_or_default();
    let pairs = [("html", before.html.clone(), after.html.clone()), ("txt", text(before), text(after))];
    let mut differs = false;
    for (ending, before, after_text) in pairs.into_iter().filter(|(_, before, after)| before != after) {
        differs = true;
        println!("{}.{ending}\n{}", after.stem, line_diff(&before, &after_text));
    }
    differs
}

/// Every template in a directory, by name.
fn read_all(directory: &Path) -> anyhow::Result<Vec<TemplateFile>> {
    let unreadable = || format!("{} cannot be read", directory.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        if path.extension().is_none_or(|ending| ending != "html") {
            continue;
        }
        let read = |path: &Path| fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()));
        let text = path.with_extension("txt");
        let stem = path.file_stem().and_then(|stem| stem.to_str()).context("a file has a name that is no text")?;
        let text = if text.exists() { Some(read(&text)?) } else { None };
        files.push(TemplateFile { stem: stem.to_owned(), html: read(&path)?, text });
    }
    files.sort_by(|one, other| one.stem.cmp(&other.stem));
    if files.is_empty() {
        bail!("{} holds no file that ends in `.html`", directory.display());
    }
    Ok(files)
}

fn write(directory: &Path, file: &TemplateFile) -> anyhow::Result<()> {
    let write = |path: PathBuf, text: &str| {
        fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))
    };
    write(directory.join(format!("{}.html", file.stem)), &file.html)?;
    match &file.text {
        Some(text) => write(directory.join(format!("{}.txt", file.stem)), text),
        None => Ok(()),
    }
}
