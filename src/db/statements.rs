//! How statements are written: all of a feature on one list, and those that look among many.

/// What a JSON array in a parameter holds, as an engine selects it: `elements!(sqlite ids "$2")` for ids in
/// hexadecimal, and the same for `numbers` and `texts`, and for `postgres`.
macro_rules! elements {
    (sqlite ids $parameter:literal) => {
        concat!("(SELECT unhex(value) FROM json_each(", $parameter, "))")
    };
    (sqlite $kind:ident $parameter:literal) => {
        concat!("(SELECT value FROM json_each(", $parameter, "))")
    };
    (postgres ids $parameter:literal) => {
        $crate::db::elements!(@ $parameter, "UUID")
    };
    (postgres numbers $parameter:literal) => {
        $crate::db::elements!(@ $parameter, "BIGINT")
    };
    (postgres texts $parameter:literal) => {
        $crate::db::elements!(@ $parameter, "TEXT")
    };
    // As text first: a parameter of the type JSON is none that values can be bound to.
    (@ $parameter:literal, $type:literal) => {
        concat!("(SELECT CAST(json_array_elements_text(CAST(CAST(", $parameter, " AS TEXT) AS JSON)) AS ", $type, "))")
    };
}
pub(crate) use elements;

/// A statement with a condition on what a JSON array in a parameter holds, of a kind that [`elements!`] knows:
/// `among!("… WHERE id", ids "$2", " LIMIT 1")`.
macro_rules! among {
    ($before:expr, $kind:ident $parameter:literal, $after:literal) => {
        $crate::db::Sql::each(
            concat!($before, " IN ", $crate::db::elements!(sqlite $kind $parameter), $after),
            concat!($before, " IN ", $crate::db::elements!(postgres $kind $parameter), $after),
        )
    };
}
pub(crate) use among;

/// Names the statements of a feature and lists them as `ALL`. Those that read one
/// list towards older and towards newer items, and perhaps one item of it, are
/// made of the same text: `OLDER, NEWER, BY_ID = "SELECT … WHERE …" by "id";`.
/// One that a function makes is written as that function, which takes its
/// parameters, or what they are made of:
/// `pub fn rename(id: Id, name: &Name) with [id, name.as_str()] expects 1 = …;`.
/// One that is asked of the store and read is written as the function that does so,
/// and takes the store first: `pub fn owners(workspace_id: WorkspaceId) -> Vec<String> = …;`.
macro_rules! statements {
    (@sorted
        lists { $($(#[$about:meta])* $older:ident, $newer:ident $(, $one:ident)? = $select:literal by $id:literal;)* }
        functions {
            $(
                $(#[$what:meta])*
                $vis:vis fn $function:ident($($param:ident: $type:ty),* $(,)?)
                $(with [$($value:expr),* $(,)?])? $(expects $rows:literal)? = $text:expr;
            )*
        }
        reads {
            $(
                $(#[$meaning:meta])*
                $seen:vis fn $read:ident($($given:ident: $kind:ty),* $(,)?)
                $(with [$($part:expr),* $(,)?])? -> $found:ty = $query:expr;
            )*
        }
        $($(#[$doc:meta])* $name:ident = $sql:expr;)*
    ) => {
        $(
            $(#[$about])*
            const $older: $crate::db::Sql = $crate::db::Sql(&$crate::db::Sql::both(
                concat!($select, " AND ", $id, " < $2 ORDER BY ", $id, " DESC LIMIT $3")));
            const $newer: $crate::db::Sql = $crate::db::Sql(&$crate::db::Sql::both(
                concat!($select, " AND ", $id, " > $2 ORDER BY ", $id, " LIMIT $3")));
            $(const $one: $crate::db::Sql = $crate::db::Sql(&$crate::db::Sql::both(
                concat!($select, " AND ", $id, " = $2")));)?
        )*
        $($(#[$doc])* const $name: $crate::db::Sql = $crate::db::Sql(&$sql);)*

        $(
            $(#[$what])*
            $vis fn $function($($param: $type),*) -> $crate::db::Stmt {
                let params = $crate::db::statements!(@params [$($param),*] $([$($value),*])?);
                Texts::$function.with(params)$(.expect($rows))?
            }
        )*

        $(
            $(#[$meaning])*
            $seen async fn $read(db: &$crate::db::Db, $($given: $kind),*) -> Result<$found, $crate::db::DbError> {
                let params = $crate::db::statements!(@params [$($given),*] $([$($part),*])?);
                db.query(Texts::$read.with(params)).await
            }
        )*

        /// Every statement of this file, for the test that prepares them all.
        pub const ALL: &[$crate::db::Sql] =
            &[$($older, $newer, $($one,)?)* $(Texts::$function,)* $(Texts::$read,)* $($name),*];
        $crate::db::statements! { @texts $($function = $text;)* $($read = $query;)* }
    };
    (@params [$($param:ident),*]) => {
        [$($param.into()),*]
    };
    (@params [$($param:ident),*] [$($value:expr),*]) => {
        [$($value.into()),*]
    };
    (@texts) => {};
    (@texts $($function:ident = $text:expr;)+) => {
        /// The texts of the functions, called like these.
        struct Texts;

        #[expect(non_upper_case_globals, reason = "a text has the name of its function")]
        impl Texts {
            $(const $function: $crate::db::Sql = $crate::db::Sql(&$text);)+
        }
    };
    (@sort [$($lists:tt)*] [$($functions:tt)*] [$($reads:tt)*] lists { $($more:tt)* } $($rest:tt)*) => {
        $crate::db::statements! { @sort [$($more)*] [$($functions)*] [$($reads)*] $($rest)* }
    };
    (@sort [$($lists:tt)*] [$($functions:tt)*] [$($reads:tt)*] functions { $($more:tt)* } $($rest:tt)*) => {
        $crate::db::statements! { @sort [$($lists)*] [$($more)*] [$($reads)*] $($rest)* }
    };
    (@sort [$($lists:tt)*] [$($functions:tt)*] [$($reads:tt)*] reads { $($more:tt)* } $($rest:tt)*) => {
        $crate::db::statements! { @sort [$($lists)*] [$($functions)*] [$($more)*] $($rest)* }
    };
    (@sort [$($lists:tt)*] [$($functions:tt)*] [$($reads:tt)*] $($rest:tt)*) => {
        $crate::db::statements! {
            @sorted lists { $($lists)* } functions { $($functions)* } reads { $($reads)* } $($rest)*
        }
    };
    ($($all:tt)*) => {
        $crate::db::statements! { @sort [] [] [] $($all)* }
    };
}
pub(crate) use statements;
