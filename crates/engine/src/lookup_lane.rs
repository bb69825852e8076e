//! The order of look-ups that wait: in turn by source, which is a client or an address. Pure: no threads, no clock.
//!
//! A lane that is full gives the place of the source with most to one with fewer, so that a source that asks for many names does not crowd
//! out others.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::wanted::Wanted;

/// A source may fill this part of a lane: one of so many.
const SOURCE_PART: usize = 4;

/// Look-ups that wait, by source. Several sources may have a place for the same one.
#[derive(Default)]
pub(crate) struct LookupLane {
    sources: HashMap<u64, LaneSource>,
    /// Sources by the number of their turn.
    turns: BTreeMap<u64, u64>,
    /// Sources by the number of their places.
    by_places: BTreeSet<(usize, u64)>,
    next_turn: u64,
}

struct LaneSource {
    turn: u64,
    /// Never empty.
    waiting: VecDeque<Wanted>,
}

/// A place that a look-up had or has in a lane.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LanePlace {
    pub(crate) source: u64,
    pub(crate) wanted: Wanted,
}

impl LookupLane {
    /// Whether a source has fewer places than its part of a lane for `lookups_max` look-ups.
    pub(crate) fn has_share(&self, source: u64, lookups_max: usize) -> bool {
        self.places_of(source) < lookups_max.div_ceil(SOURCE_PART)
    }

    /// Takes the newest place of the source with most, unless `source` would then have more: they would only change roles.
    pub(crate) fn displace_for(&mut self, source: u64) -> Option<LanePlace> {
        let (most, busiest) = *self.by_places.last()?;
        if most > self.places_of(source) + 1 { self.take(busiest, VecDeque::pop_back) } else { None }
    }

    fn places_of(&self, source: u64) -> usize {
        self.sources.get(&source).map_or(0, |own| own.waiting.len())
    }

    /// Adds a place for a look-up.
    pub(crate) fn push(&mut self, source: u64, wanted: Wanted) {
        let turn = self.next_turn;
        let own = self.sources.entry(source).or_insert_with(|| LaneSource { turn, waiting: VecDeque::new() });
        own.waiting.push_back(wanted);
        let now = own.waiting.len();
        if now == 1 {
            self.turns.insert(turn, source);
            self.next_turn += 1;
        }
        self.recount(source, now - 1, now);
    }

    /// The next look-up; the other look-ups of its source have their turn after those of all others.
    pub(crate) fn pop(&mut self) -> Option<LanePlace> {
        let (_, source) = self.turns.pop_first()?;
        let own = self.sources.get_mut(&source).expect("it has a turn");
        own.turn = self.next_turn;
        self.turns.insert(own.turn, source);
        self.next_turn += 1;
        self.take(source, VecDeque::pop_front)
    }

    /// Removes the place of a source for a look-up.
    pub(crate) fn remove(&mut self, source: u64, wanted: &Wanted) {
        self.take(source, |waiting| waiting.iter().position(|it| it == wanted).and_then(|index| waiting.remove(index)));
    }

    /// Removes what `choose` takes from the look-ups of a source, and forgets a source that has none left.
    fn take(&mut self, source: u64, choose: impl Fn(&mut VecDeque<Wanted>) -> Option<Wanted>) -> Option<LanePlace> {
        let own = self.sources.get_mut(&source)?;
        let wanted = choose(&mut own.waiting)?;
        let (turn, now) = (own.turn, own.waiting.len());
        self.recount(source, now + 1, now);
        if now == 0 {
            self.sources.remove(&source);
            self.turns.remove(&turn);
        }
        Some(LanePlace { source, wanted })
    }

    fn recount(&mut self, source: u64, before: usize, now: usize) {
        self.by_places.remove(&(before, source));
        if now > 0 {
            self.by_places.insert((now, source));
        }
    }
}

#[cfg(test)]
mod tests {
    use leafseal_keystore::AppName;

    use super::*;

    fn wanted(number: usize) -> Wanted {
        Wanted::App(AppName::parse(&format!("app-{number}")).expect("a name"))
    }

    /// Adds look-ups of a source, as many as there is room for in a lane of 16. Returns the places that were taken from others.
    fn fill(lane: &mut LookupLane, source: u64, count: usize) -> Vec<LanePlace> {
        let mut taken = Vec::new();
        for number in 0..count {
            let places: usize = lane.by_places.iter().map(|(places, _)| places).sum();
            let displaced = if places < 16 { None } else { lane.displace_for(source) };
            if !lane.has_share(source, 16) || (places == 16 && displaced.is_none()) {
                break;
            }
            taken.extend(displaced);
            lane.push(source, wanted(number));
        }
        taken
    }

    fn drain(lane: &mut LookupLane) -> Vec<u64> {
        let order = std::iter::from_fn(|| lane.pop()).map(|place| place.source).collect();
        assert!(lane.sources.is_empty() && lane.turns.is_empty() && lane.by_places.is_empty());
        order
    }

    #[test]
    fn sources_take_turns_however_much_each_wants() {
        let mut lane = LookupLane::default();
        for source in 0..3 {
            fill(&mut lane, source, 4);
        }
        fill(&mut lane, 3, 1);
        assert_eq!(drain(&mut lane), [0, 1, 2, 3, 0, 1, 2, 0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn a_source_with_few_takes_the_newest_place_of_the_one_with_most() {
        let mut lane = LookupLane::default();
        for source in 0..4 {
            assert_eq!(fill(&mut lane, source, 99), [], "a quarter is its own bound");
        }
        assert!(!lane.has_share(0, 16), "it has a quarter");
        let taken = fill(&mut lane, 4, 99);
        // It stops at the number that the others have: 4, 3, 3, 3 and 3.
        assert_eq!(taken.len(), 3);
        assert_eq!(taken[0], LanePlace { source: 3, wanted: wanted(3) });
        for source in 5..16 {
            assert_eq!(fill(&mut lane, source, 1).len(), 1, "{source}");
        }
        assert_eq!(lane.displace_for(16), None, "each has one");
        assert_eq!(drain(&mut lane), (0..16).collect::<Vec<u64>>());
    }

    #[test]
    fn a_source_whose_places_are_removed_has_no_turn() {
        let mut lane = LookupLane::default();
        fill(&mut lane, 1, 2);
        fill(&mut lane, 2, 1);
        for source in [1, 1, 3] {
            lane.remove(source, &wanted(1));
            lane.remove(source, &wanted(0));
        }
        assert_eq!(drain(&mut lane), [2]);
    }
}
