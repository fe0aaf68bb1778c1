//! The parameters of a Query request. The decoder takes each parameter exactly once.

use std::collections::BTreeMap;
use std::ops::Bound;

use percent_encoding::percent_decode_str;

use super::{Fault, invalid_value, missing, not_simulated};

/// Flat parameters such as `Filter.1.Value.2=x`. Parameters that remain after decoding are rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Params(BTreeMap<String, String>);

impl Params {
    pub(crate) fn parse(form: &str) -> Result<Self, Fault> {
        let malformed = |why: String| Fault::with_status(404, "MalformedQueryString", why);
        let mut all = BTreeMap::new();
        for pair in form.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let text = |raw: &str| {
                let raw = raw.replace('+', " ");
                percent_decode_str(&raw).decode_utf8().map(std::borrow::Cow::into_owned)
            };
            let (Ok(name), Ok(value)) = (text(name), text(value)) else {
                return Err(malformed("The query string is not UTF-8.".to_owned()));
            };
            if all.insert(name.clone(), value).is_some() {
                return Err(malformed(format!("The parameter {name} is given more than once.")));
            }
        }
        Ok(Self(all))
    }

    /// Drops each parameter whose name satisfies `unwanted`.
    pub(crate) fn drop_where(&mut self, unwanted: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| !unwanted(name));
    }

    pub(crate) fn as_map(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    pub(crate) fn take<T: Parameter>(&mut self, name: &str) -> Result<T, Fault> {
        T::parameter(self, name)
    }

    /// Takes a required parameter, which must not be empty.
    pub(crate) fn required<T: Parameter>(&mut self, name: &str) -> Result<T, Fault> {
        self.take(name).and_then(|value: T| if value.is_absent() { Err(missing(name)) } else { Ok(value) })
    }

    /// Returns the numbers that follow `name.`, sorted and without duplicates.
    pub(crate) fn indices(&self, name: &str) -> Vec<u32> {
        let prefix = format!("{name}.");
        let mut indices: Vec<u32> = self
            .below(&prefix)
            .filter_map(|key| key.strip_prefix(&prefix))
            .filter_map(|rest| rest.split('.').next())
            .filter(|index| !index.starts_with(['0', '+']))
            .filter_map(|index| index.parse().ok())
            .collect();
        indices.sort_unstable();
        indices.dedup();
        indices
    }

    fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a String> {
        self.0
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .map(|(name, _)| name)
            .take_while(move |name| name.starts_with(prefix))
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name) || self.below(&format!("{name}.")).next().is_some()
    }

    /// Drops the parameter `name` and all parameters whose names begin with `name.`.
    pub(crate) fn ignore(&mut self, name: &str) {
        let below: Vec<String> = self.below(&format!("{name}.")).cloned().collect();
        below.iter().for_each(|name| drop(self.0.remove(name)));
        self.0.remove(name);
    }

    /// Rejects a parameter that EC2 supports and the simulator does not.
    pub(crate) fn refuse(&self, name: &str) -> Result<(), Fault> {
        if self.has(name) { Err(not_simulated(name)) } else { Ok(()) }
    }

    pub(crate) fn finish(self) -> Result<(), Fault> {
        match self.0.into_keys().next() {
            None => Ok(()),
            Some(name) => Err(Fault::new("UnknownParameter", format!("The parameter {name} is not recognized"))),
        }
    }
}

#[cfg(test)]
impl super::Call {
    /// Decodes a line such as `DeleteVolume VolumeId=vol-1`. A later value of a parameter replaces an earlier one, and
    /// `!Name` removes the parameter.
    pub(crate) fn line(line: &str) -> Result<Self, Fault> {
        let (action, words) = line.split_once(' ').unwrap_or((line, ""));
        let mut params = Params(BTreeMap::new());
        for word in words.split_whitespace() {
            match word.split_once('=') {
                Some((name, value)) => drop(params.0.insert(name.to_owned(), value.to_owned())),
                None => params.ignore(word.trim_start_matches('!')),
            }
        }
        let node = match action {
            "AttachClusterNodeVolume" => Self::AttachClusterNodeVolume,
            "DetachClusterNodeVolume" => Self::DetachClusterNodeVolume,
            _ => {
                let call = Self::decode(action, &mut params)?;
                return params.finish().map(|()| call);
            }
        };
        let (cluster_arn, node_id) = (params.required("ClusterArn")?, params.required("NodeId")?);
        Ok(node(super::ClusterNodeVolume { cluster_arn, node_id, volume_id: params.required("VolumeId")? }))
    }
}

pub(crate) trait Parameter: Sized {
    fn parameter(p: &mut Params, name: &str) -> Result<Self, Fault>;

    fn is_absent(&self) -> bool {
        false
    }
}

/// An element of a list. Its `prefix` is the list's name and a number.
pub(crate) trait Element: Sized {
    /// Takes the element, or returns `None` if the parameters with that prefix do not form one.
    fn element(p: &mut Params, prefix: &str) -> Result<Option<Self>, Fault>;
}

/// Values that name objects: ids, client tokens, values of filters and tags.
pub(crate) trait Named {
    fn each_name(&self, each: &mut dyn FnMut(&str));
}

impl Parameter for Option<String> {
    fn parameter(p: &mut Params, name: &str) -> Result<Self, Fault> {
        Ok(p.text(name))
    }

    fn is_absent(&self) -> bool {
        self.as_deref().unwrap_or_default().is_empty()
    }
}

impl Parameter for String {
    fn parameter(p: &mut Params, name: &str) -> Result<Self, Fault> {
        Ok(p.text(name).unwrap_or_default())
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl Parameter for Option<bool> {
    fn parameter(p: &mut Params, name: &str) -> Result<Self, Fault> {
        match p.text(name) {
            None => Ok(None),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
            Some(text) => Err(invalid_value(name, &text, "true or false")),
        }
    }
}

impl Parameter for bool {
    fn parameter(p: &mut Params, name: &str) -> Result<Self, Fault> {
        Ok(p.take::<Option<bool>>(name)?.unwrap_or(false))
    }
}

/// The value is a 32-bit integer on the wire.
impl Parameter for Option<i64> {
    fn parameter(p: &mut Params, name: &str) -> Result<Self, Fault> {
        let Some(text) = p.text(name) else { return Ok(None) };
        let number: Result<i32, _> = text.parse();
        number.map(|number| Some(i64::from(number))).map_err(|_| invalid_value(name, &text, "a 32-bit integer"))
    }
}

/// The value is the number of elements of a list, whatever they contain.
impl Parameter for u32 {
    fn parameter(p: &mut Params, name: &str) -> Result<Self, Fault> {
        let count = p.indices(name).len();
        p.ignore(name);
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }
}

/// The elements are in the order of their numbers.
impl<T: Element> Parameter for Vec<T> {
    fn parameter(p: &mut Params, name: &str) -> Result<Self, Fault> {
        let indices = p.indices(name).into_iter();
        indices.filter_map(|index| T::element(p, &format!("{name}.{index}")).transpose()).collect()
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl Element for String {
    fn element(p: &mut Params, prefix: &str) -> Result<Option<Self>, Fault> {
        Ok(p.text(prefix))
    }
}

impl Named for String {
    fn each_name(&self, each: &mut dyn FnMut(&str)) {
        each(self);
    }
}

impl Named for Option<String> {
    fn each_name(&self, each: &mut dyn FnMut(&str)) {
        self.iter().for_each(|name| each(name));
    }
}

impl<T: Named> Named for Vec<T> {
    fn each_name(&self, each: &mut dyn FnMut(&str)) {
        self.iter().for_each(|one| one.each_name(each));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Filter, TagToDelete};
    use super::*;

    fn params(form: &str) -> Params {
        Params::parse(form).unwrap()
    }

    #[test]
    fn list_parameters_are_sorted_by_their_numbers() {
        let mut p = params("VolumeId.10=c&VolumeId.2=b&VolumeId.1=a");
        assert_eq!(p.take::<Vec<String>>("VolumeId").unwrap(), ["a", "b", "c"]);
        assert_eq!(p.finish(), Ok(()));
    }

    #[test]
    fn filters_are_parsed_with_name_and_values() {
        let mut p = params("Filter.1.Name=tag%3AA+B&Filter.1.Value.1=x%26y&Filter.1.Value.2=&Filter.2.Name=status");
        let filters = p.take::<Vec<Filter>>("Filter").unwrap();
        assert_eq!(filters[0], Filter { name: "tag:A B".into(), values: vec!["x&y".into(), String::new()] });
        assert_eq!(filters[1], Filter { name: "status".into(), values: vec![] });
        assert_eq!(params("Filter.1.Value.1=x").take::<Vec<Filter>>("Filter").unwrap_err().code, "MissingParameter");
    }

    #[test]
    fn invalid_number_or_boolean_is_invalid_parameter_value() {
        for bad in ["", "x", "4.5", "2147483648", "0x10"] {
            let refused = params(&format!("Size={bad}")).take::<Option<i64>>("Size").unwrap_err();
            assert_eq!(refused.code, "InvalidParameterValue", "{bad}");
        }
        assert_eq!(params("Size=-8").take::<Option<i64>>("Size"), Ok(Some(-8)));
        assert_eq!(
            params("Encrypted=yes").take::<Option<bool>>("Encrypted").unwrap_err().code,
            "InvalidParameterValue"
        );
        assert_eq!(params("Encrypted=True").take::<Option<bool>>("Encrypted"), Ok(Some(true)));
    }

    proptest! {
        /// A list has at most as many entries as the form has parameters.
        #[test]
        fn any_form_is_parsed_or_rejected_without_panic(form in ".{0,200}") {
            if let Ok(mut p) = Params::parse(&form) {
                let most = form.split('&').count();
                let filters = p.take::<Vec<Filter>>("Filter").map_or(0, |list| list.len());
                let tags = p.take::<Vec<TagToDelete>>("Tag").map_or(0, |list| list.len());
                let ids = p.take::<Vec<String>>("VolumeId").map_or(0, |list| list.len());
                prop_assert!(filters + tags + ids <= most);
            }
        }

        /// The values may contain any characters.
        #[test]
        fn list_parameter_round_trips_through_the_form(ids in proptest::collection::vec(".{1,20}", 0..5)) {
            let pair = |(at, id): (usize, &String)| {
                format!("VolumeId.{}={}", at + 1, percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC))
            };
            let form: Vec<String> = ids.iter().enumerate().map(pair).collect();
            let mut parsed = Params::parse(&form.join("&")).expect("a form");
            prop_assert_eq!(parsed.take::<Vec<String>>("VolumeId"), Ok(ids));
        }
    }
}
