//! What may stand in a template: conditions, loops, names for values, filters, comparisons.
//!
//! A list of what is allowed, over the tree that the engine's own parser makes. What could make
//! a value larger than those that were given is not on it: sums and products of anything (texts
//! are lengthened by them), lists that hold variables (nested, they double), captured output,
//! functions, recursion. So the memory of a rendering is that of its values and its output.

use std::fmt;

use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, ForLoop, Spanned, Stmt};
use minijinja::machinery::{Span, Token, parse, tokenize};
use minijinja::syntax::SyntaxConfig;
use serde_json::{Map, Value};

use super::error::Error;
use super::filters;

/// The parser, and whoever follows its tree, calls itself for each of these.
const MOST_TOKENS_OF_A_TAG: usize = 200;
const MOST_ELIFS: usize = 100;

/// What is built of each takes some hundred bytes; many more could not be rendered with the fuel that there is.
const MOST_TOKENS: usize = 100_000;

/// Words that the engine keeps to itself.
const WORDS: &[&str] =
    &["True", "False", "None", "true", "false", "none", "not", "and", "or", "if", "else", "in", "is", "loop", "self"];

/// Whether a variable can be called so.
pub fn is_name(text: &str) -> bool {
    text.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !WORDS.contains(&text)
}

/// A variable where it is looked at: its name, and names of parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    pub line: usize,
    /// Named by the template itself: by a loop, or by `set`.
    pub is_local: bool,
    parts: Vec<String>,
}

impl Path {
    pub fn root(&self) -> &str {
        &self.parts[0]
    }

    pub fn is_in(&self, values: &Map<String, Value>) -> bool {
        let first = values.get(self.root());
        self.parts[1..].iter().fold(first, |value, part| value.and_then(|value| value.get(part))).is_some()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts.join("."))
    }
}

/// Every variable that is looked at, of a template in which nothing stands that may not.
pub fn check(source: &str, syntax: &SyntaxConfig) -> Result<Vec<Path>, Error> {
    check_tokens(source, syntax)?;
    let tree = parse(source, "", syntax.clone()).map_err(|error| Error::syntax(&error))?;
    let mut check = Check { paths: Vec::new(), local: vec!["loop"] };
    check.statement(&tree)?;
    Ok(check.paths)
}

/// Before anything is nested.
fn check_tokens(source: &str, syntax: &SyntaxConfig) -> Result<(), Error> {
    let (mut of_tag, mut elifs) = (0, 0);
    for (count, token) in tokenize(source, false, syntax.clone()).enumerate() {
        let (token, span) = token.map_err(|error| Error::syntax(&error))?;
        if count >= MOST_TOKENS {
            return refuse(span, format!("there are more than {MOST_TOKENS} words, signs and pieces of text"));
        }
        match token {
            Token::TemplateData(_) | Token::VariableStart | Token::BlockStart => of_tag = 0,
            Token::Ident("elif") => elifs += 1,
            _ => {}
        }
        of_tag += 1;
        if of_tag > MOST_TOKENS_OF_A_TAG {
            return refuse(span, "there is too much between these braces: write it in several steps");
        }
        if elifs > MOST_ELIFS {
            return refuse(span, format!("there are more than {MOST_ELIFS} `elif`"));
        }
    }
    Ok(())
}

fn refuse<T>(span: Span, message: impl Into<String>) -> Result<T, Error> {
    Err(Error::at(Some(span.start_line as usize), message))
}

struct Check<'a> {
    paths: Vec<Path>,
    /// The names that the template gave, innermost last.
    local: Vec<&'a str>,
}

impl<'a> Check<'a> {
    fn block(&mut self, statements: &[Stmt<'a>]) -> Result<(), Error> {
        let outer = self.local.len();
        statements.iter().try_for_each(|statement| self.statement(statement))?;
        self.local.truncate(outer);
        Ok(())
    }

    fn statement(&mut self, statement: &Stmt<'a>) -> Result<(), Error> {
        match statement {
            Stmt::Template(template) => self.block(&template.children),
            Stmt::EmitRaw(_) => Ok(()),
            Stmt::EmitExpr(emit) => self.expression(&emit.expr),
            Stmt::IfCond(condition) => {
                self.expression(&condition.expr)?;
                self.block(&condition.true_body)?;
                self.block(&condition.false_body)
            }
            Stmt::ForLoop(repeated) => self.repeated(repeated),
            Stmt::WithBlock(with) => {
                let outer = self.local.len();
                for (target, value) in &with.assignments {
                    self.expression(value)?;
                    self.name(target)?;
                }
                self.block(&with.body)?;
                self.local.truncate(outer);
                Ok(())
            }
            Stmt::Set(set) => {
                self.expression(&set.expr)?;
                self.name(&set.target)
            }
            Stmt::SetBlock(other) => refuse(other.span(), "`set` takes a value behind `=`, not a block"),
            Stmt::AutoEscape(other) => refuse(other.span(), "`autoescape` is not allowed: mark one value by `| safe`"),
            Stmt::FilterBlock(other) => {
                refuse(other.span(), "`filter` blocks are not allowed: filter one value by `|`")
            }
            Stmt::Do(other) => refuse(other.span(), "`do` is not allowed: there are no functions"),
        }
    }

    fn repeated(&mut self, repeated: &Spanned<ForLoop<'a>>) -> Result<(), Error> {
        if repeated.recursive {
            return refuse(repeated.span(), "`recursive` loops are not allowed");
        }
        self.expression(&repeated.iter)?;
        let outer = self.local.len();
        self.name(&repeated.target)?;
        repeated.filter_expr.iter().try_for_each(|filter| self.expression(filter))?;
        self.block(&repeated.body)?;
        self.local.truncate(outer);
        self.block(&repeated.else_body)
    }

    /// A name that is given, or several.
    fn name(&mut self, target: &Expr<'a>) -> Result<(), Error> {
        match target {
            Expr::Var(name) => {
                self.local.push(name.id);
                Ok(())
            }
            Expr::List(names) => names.items.iter().try_for_each(|name| self.name(name)),
            other => refuse(other.span(), "only a name can be given a value"),
        }
    }

    fn expression(&mut self, expression: &Expr<'a>) -> Result<(), Error> {
        match expression {
            Expr::Const(_) => Ok(()),
            Expr::Var(_) | Expr::GetAttr(_) => self.path(expression),
            Expr::GetItem(item) => {
                self.expression(&item.expr)?;
                self.expression(&item.subscript_expr)
            }
            Expr::UnaryOp(operation) => self.expression(&operation.expr),
            Expr::BinOp(operation) => {
                allowed(operation.op, operation.span())?;
                self.expression(&operation.left)?;
                self.expression(&operation.right)
            }
            Expr::Compare(comparison) => {
                self.expression(&comparison.expr)?;
                comparison.ops.iter().try_for_each(|next| self.expression(&next.expr))
            }
            Expr::IfExpr(choice) => {
                self.expression(&choice.test_expr)?;
                self.expression(&choice.true_expr)?;
                choice.false_expr.iter().try_for_each(|otherwise| self.expression(otherwise))
            }
            Expr::Filter(filter) => {
                known("filter", filter.name, filters::NAMES, filter.span())?;
                filter.expr.iter().try_for_each(|value| self.expression(value))?;
                self.arguments(&filter.args, filter.span())
            }
            Expr::Test(test) => {
                known("test", test.name, filters::TESTS, test.span())?;
                self.expression(&test.expr)?;
                self.arguments(&test.args, test.span())
            }
            Expr::List(list) => constants(&list.items),
            Expr::Tuple(tuple) => constants(&tuple.items),
            Expr::Map(map) => refuse(map.span(), "objects cannot be written in a template"),
            Expr::Slice(slice) => refuse(slice.span(), "a part of a text or list is not taken by `:`: use `truncate`"),
            Expr::Call(call) => refuse(call.span(), "there are no functions: use filters, as in {{ name | upper }}"),
        }
    }

    fn arguments(&mut self, arguments: &[CallArg<'a>], span: Span) -> Result<(), Error> {
        arguments.iter().try_for_each(|argument| match argument {
            CallArg::Pos(value) => self.expression(value),
            CallArg::Kwarg(..) | CallArg::PosSplat(_) | CallArg::KwargSplat(_) => {
                refuse(span, "arguments are values, without names or stars")
            }
        })
    }

    /// Remembers a name and the names of parts behind it.
    fn path(&mut self, expression: &Expr<'a>) -> Result<(), Error> {
        let (mut parts, mut at) = (Vec::new(), expression);
        while let Expr::GetAttr(part) = at {
            parts.push(part.name.to_owned());
            at = &part.expr;
        }
        let Expr::Var(root) = at else { return self.expression(at) };
        parts.push(root.id.to_owned());
        parts.reverse();
        let is_local = self.local.contains(&root.id);
        self.paths.push(Path { line: root.span().start_line as usize, is_local, parts });
        Ok(())
    }
}

fn allowed(operator: BinOpKind, span: Span) -> Result<(), Error> {
    let instead = match operator {
        BinOpKind::Add => "`+` is not allowed, because it also lengthens texts: use the filter `plus`",
        BinOpKind::Mul | BinOpKind::Pow => {
            "`*` is not allowed, because it also lengthens texts: use the filter `times`"
        }
        BinOpKind::Concat => "`~` is not allowed: write both values side by side",
        _ => return Ok(()),
    };
    refuse(span, instead)
}

fn known(what: &str, name: &str, names: &[&str], span: Span) -> Result<(), Error> {
    if names.contains(&name) {
        return Ok(());
    }
    refuse(span, format!("there is no {what} `{name}`: there are {}", names.join(", ")))
}

/// Lists hold what is written out. Variables in nested lists would double them.
fn constants(items: &[Expr<'_>]) -> Result<(), Error> {
    match items.iter().find(|item| !matches!(item, Expr::Const(_))) {
        None => Ok(()),
        Some(item) => refuse(item.span(), "a list in a template holds only texts, numbers, true and false"),
    }
}
