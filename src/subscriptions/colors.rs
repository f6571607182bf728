//! A workspace's colour on its pages. People choose any, so shades are made of it that can be read
//! on light and on dark paper.

use serde::Deserialize;
use utoipa::ToSchema;

use crate::text::checked_text;

/// A colour as HTML writes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(as = BrandColor, pattern = "^#[0-9A-Fa-f]{6}$", example = "#1b2440")]
pub struct Color(String);

checked_text!(
    Color(text) if Rgb::read(text).is_some(),
    else "must be a colour as `#1b2440`: a number sign and six hexadecimal digits"
);

/// Red, green and blue, each from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rgb([f64; 3]);

const BLACK: Rgb = Rgb([0.0; 3]);
const WHITE: Rgb = Rgb([1.0; 3]);

/// What WCAG AA asks of text, and a little more, because a browser rounds.
const LEAST_CONTRAST: f64 = 4.6;

/// The darkest light paper and the lightest dark one that text stands on, as `app.css` has them.
const LIGHT_PAPER: &str = "#f4ecdb";
const DARK_PAPER: &str = "#1a2140";

impl Rgb {
    fn read(text: &str) -> Option<Rgb> {
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6)?;
        let number = digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16))?;
        let [_, red, green, blue] = number.ok()?.to_be_bytes();
        Some(Rgb([red, green, blue].map(|part| f64::from(part) / 255.0)))
    }

    fn css(self) -> String {
        let parts = self.0.map(|part| (part * 255.0).round() as u8);
        format!("#{:02x}{:02x}{:02x}", parts[0], parts[1], parts[2])
    }

    /// As WCAG defines it.
    fn luminance(self) -> f64 {
        let linear = |part: f64| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) };
        let [red, green, blue] = self.0.map(linear);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    fn contrast(self, other: Rgb) -> f64 {
        let (one, two) = (self.luminance(), other.luminance());
        (one.max(two) + 0.05) / (one.min(two) + 0.05)
    }

    fn mixed(self, other: Rgb, share: f64) -> Rgb {
        let [a, b] = [self.0, other.0];
        Rgb(std::array::from_fn(|at| a[at] + (b[at] - a[at]) * share))
    }

    /// The nearest shade, on the way to another colour, that can be read on this paper.
    fn readable_on(self, paper: Rgb, towards: Rgb) -> Rgb {
        let shades = (0..=50).map(|step| self.mixed(towards, f64::from(step) / 50.0));
        shades.into_iter().find(|shade| shade.contrast(paper) >= LEAST_CONTRAST).unwrap_or(towards)
    }
}

/// The styles that show a page in a colour; `digits` are those behind its number sign.
pub fn stylesheet(digits: &str) -> Option<String> {
    let color = Rgb::read(&format!("#{digits}"))?;
    let on_light = color.readable_on(Rgb::read(LIGHT_PAPER)?, BLACK).css();
    let on_dark = color.readable_on(Rgb::read(DARK_PAPER)?, WHITE).css();
    let on_color = if color.contrast(WHITE) >= color.contrast(BLACK) { WHITE } else { BLACK };
    let (color, on_color) = (color.css(), on_color.css());
    Some(format!(
        ":root {{ --brass: {on_light}; --brass-text: {on_light}; }}\n\
         .primary, .primary:hover {{ background: {color}; border-color: {on_light}; color: {on_color}; }}\n\
         @media (prefers-color-scheme: dark) {{\n\
         :root {{ --brass: {on_dark}; --brass-text: {on_dark}; }}\n\
         .primary, .primary:hover {{ border-color: {on_dark}; }}\n}}\n"
    ))
}

impl Color {
    /// The digits behind the number sign, in lower case.
    pub fn digits(&self) -> String {
        self.0[1..].to_ascii_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_colour_is_a_number_sign_and_six_digits() {
        for good in ["#000000", "#1B2440", "#ffffff"] {
            assert!(Color::try_from(good.to_owned()).is_ok(), "{good}");
        }
        for bad in ["", "#", "000000", "#fff", "#1b244g", "#1b24400", "red", "#+12345", "#1b2\u{e9}4"] {
            assert!(Color::try_from(bad.to_owned()).is_err(), "{bad}");
            assert_eq!(stylesheet(bad.trim_start_matches('#')).is_some(), bad == "000000", "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_colour_can_be_read_on_both_papers_and_written_on(number in 0_u32..=0xff_ffff) {
            let digits = format!("{number:06x}");
            let color = Rgb::read(&format!("#{digits}")).expect("a colour");
            let [light, dark] = [LIGHT_PAPER, DARK_PAPER].map(|paper| Rgb::read(paper).expect("a colour"));
            let read = |shade: Rgb| Rgb::read(&shade.css()).expect("a colour");
            prop_assert!(read(color.readable_on(light, BLACK)).contrast(light) >= 4.5);
            prop_assert!(read(color.readable_on(dark, WHITE)).contrast(dark) >= 4.5);
            prop_assert!(color.contrast(WHITE).max(color.contrast(BLACK)) >= 4.5);
            prop_assert!(stylesheet(&digits).is_some());
        }
    }
}
