//! How large a picture is shown: by links, so that no script is needed.

/// A size in percent; none: as large as fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zoom(Option<i32>);

/// As addresses name them, and how they are called.
const SIZES: [(&str, &str, Option<i32>); 5] = [
    ("fit", "Fit", None),
    ("50", "50 %", Some(50)),
    ("100", "100 %", Some(100)),
    ("150", "150 %", Some(150)),
    ("200", "200 %", Some(200)),
];

impl Default for Zoom {
    fn default() -> Zoom {
        Zoom(Some(100))
    }
}

impl Zoom {
    pub fn parse(asked: Option<&str>) -> Zoom {
        let known = SIZES.into_iter().find(|(name, _, _)| Some(*name) == asked);
        known.map_or_else(Zoom::default, |(_, _, size)| Zoom(size))
    }

    /// What there is to choose from: the name, what it is called, and whether it is chosen.
    pub fn choices(self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        let chosen = self.0;
        SIZES.into_iter().map(move |(name, word, size)| (name, word, size == chosen))
    }

    /// As addresses name it; none, where they need not.
    pub fn name(self) -> Option<&'static str> {
        self.choices().find(|(_, _, is_chosen)| *is_chosen && self != Zoom::default()).map(|(name, _, _)| name)
    }

    /// The look of the picture: one that was not made larger or smaller may shrink on a narrow screen.
    pub fn look(self) -> &'static str {
        match self.0 {
            None => "fit",
            Some(100) => "",
            Some(_) => "sized",
        }
    }

    pub fn of(self, length: i32) -> i32 {
        length * self.0.unwrap_or(100) / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_one_of_those_that_are_offered() {
        let chosen = |asked: Option<&str>| {
            let zoom = Zoom::parse(asked);
            let found: Vec<&str> = zoom.choices().filter(|one| one.2).map(|one| one.0).collect();
            (found, zoom.of(300), zoom.look(), zoom.name())
        };
        assert_eq!(chosen(None), (vec!["100"], 300, "", None));
        assert_eq!(chosen(Some("150")), (vec!["150"], 450, "sized", Some("150")));
        assert_eq!(chosen(Some("fit")), (vec!["fit"], 300, "fit", Some("fit")));
        assert_eq!(chosen(Some("100000")), (vec!["100"], 300, "", None));
    }
}
