//! An automaton for selectors without filters, over the path from the root to a value.
//!
//! Each segment of each query is a state: being in it means that the segments before it have matched and that it applies to the children of
//! the current value. A value has a set of states; the sets are numbered when they first occur and their transitions cached (a lazily
//! determinised automaton), so that a member costs one lookup of its name however many selectors there are. The number of a set encodes
//! whether its values are selected and whether everything below them is decided; `NOTHING`, below which nothing can match any more, is set
//! 0.
//!
//! A query's end is a state too. If scalars are wanted, the end state applies to everything below a selected value, and the other states of
//! its query are dropped there: a set then names the queries that select its values, so that matches can be counted by set, and is settled
//! once only ends are left in it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use crate::fold::{CaseFold, FOLDED_GROWTH_MAX, fold_into, folded};
use crate::selector::ast::{ArraySlice, JsonPathQuery, Reach, Selector, index_selects};
use crate::selector::coverage::Coverage;
use crate::text::{may_unescape_to, unescape};

mod path_names;
mod row;

use path_names::Paths;
pub(crate) use row::{AmbiguousName, Member};
use row::{TransitionRow, by_length, length_bit, lengths};

/// Number of sets above which all but those in use are evicted. Real selectors need a handful; consecutive descendant wildcards can need
/// exponentially many.
const SETS_MAX: usize = 4096;

/// A state: numbers below the number of queries are the queries' ends, the others count the segments of all queries.
type AutomatonState = u32;

/// The number of a set of states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SetId(u32);

impl SetId {
    /// The empty set: neither the value nor anything below it is selected.
    pub(crate) const NOTHING: SetId = SetId(SetId::SETTLED_BIT);

    const SELECTED_BIT: u32 = 1 << 31;
    const SETTLED_BIT: u32 = 1 << 30;

    fn new(index: usize, is_selected: bool, is_settled: bool) -> SetId {
        let flag = |is_set, bit| if is_set { bit } else { 0 };
        SetId(index as u32 | flag(is_selected, SetId::SELECTED_BIT) | flag(is_settled, SetId::SETTLED_BIT))
    }

    /// Whether a value with this set is selected.
    #[inline(always)]
    pub(crate) fn is_selected(self) -> bool {
        self.0 & SetId::SELECTED_BIT != 0
    }

    /// Whether everything below a value with this set has the same set.
    #[inline(always)]
    pub(crate) fn is_settled(self) -> bool {
        self.0 & SetId::SETTLED_BIT != 0
    }

    #[inline(always)]
    fn index(self) -> usize {
        (self.0 & !(SetId::SELECTED_BIT | SetId::SETTLED_BIT)) as usize
    }
}

/// Whether a selected value settles everything below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Yes: scalars are wanted, and all below are selected.
    Scalars,
    /// No: nodes are wanted, and those below may or may not be selected.
    Nodes,
}

/// The compiled queries; immutable, shared between documents.
#[derive(Debug)]
pub(crate) struct CompiledQueries {
    steps: Vec<StateStep>,
    starts: Box<[AutomatonState]>,
    /// The number of queries, and thus of ends at the beginning of the states.
    queries: u32,
    /// Whether the elements selected depend on array lengths.
    needs_lengths: bool,
    /// The action for names that differ from those of the queries only in case.
    other_case: CaseFold,
    /// Whether a document is refused in which a name that a query looks for occurs twice in an object.
    refuses_duplicates: bool,
    /// If names that are paths are followed, the queries for these.
    paths: Option<Paths>,
}

/// The effect of a state on the children of its value.
#[derive(Debug, Default)]
struct StateStep {
    /// The query that it belongs to.
    query: u32,
    /// The state of the children that it selects.
    next: AutomatonState,
    /// Whether the segment applies to all descendants.
    descends: bool,
    wildcard: bool,
    names: Vec<Box<str>>,
    elements: Vec<ElementSelector>,
}

/// A selector of array elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ElementSelector {
    Index(i64),
    Slice(ArraySlice),
}

impl ElementSelector {
    fn needs_length(&self) -> bool {
        match self {
            ElementSelector::Index(index) => *index < 0,
            ElementSelector::Slice(slice) => slice.needs_length(),
        }
    }

    fn selects(&self, index: i64, length: i64) -> bool {
        match self {
            ElementSelector::Index(selector) => index_selects(*selector, index, length),
            ElementSelector::Slice(slice) => slice.selects(index, length),
        }
    }
}

impl CompiledQueries {
    /// Compiles queries without filters.
    pub(crate) fn new(queries: &[JsonPathQuery], other_case: CaseFold, refuses_duplicates: bool) -> CompiledQueries {
        let ends = 0..queries.len() as u32;
        let mut steps: Vec<StateStep> =
            ends.map(|query| StateStep { query, next: query, ..StateStep::default() }).collect();
        let mut starts = Vec::with_capacity(queries.len());
        for (end, query) in queries.iter().enumerate() {
            let end = end as AutomatonState;
            let first = steps.len() as AutomatonState;
            let behind = first + query.segments.len() as AutomatonState;
            starts.push(if query.segments.is_empty() { end } else { first });
            steps.extend(query.segments.iter().zip(first + 1..).map(|(segment, next)| {
                let next = if next == behind { end } else { next };
                let descends = segment.reach == Reach::Descendants;
                let mut step = StateStep { query: end, next, descends, ..StateStep::default() };
                segment.selectors.iter().for_each(|selector| step.add(selector));
                step.settle();
                step
            }));
        }
        let needs_lengths = steps.iter().flat_map(|step| &step.elements).any(ElementSelector::needs_length);
        let (starts, queries) = (starts.into(), queries.len() as u32);
        CompiledQueries { steps, starts, queries, needs_lengths, other_case, refuses_duplicates, paths: None }
    }

    /// Whether values are found by the paths that names are, and in no other way.
    pub(crate) fn has_paths_alone(&self) -> bool {
        self.paths.is_some_and(|paths| paths.fields == 0)
    }

    /// Whether a name that a query looks for must not occur twice in an object.
    pub(crate) fn refuses_duplicates(&self) -> bool {
        self.refuses_duplicates
    }

    /// Whether array lengths must be known when an array begins.
    pub(crate) fn needs_lengths(&self) -> bool {
        self.needs_lengths
    }
}

impl StateStep {
    fn add(&mut self, selector: &Selector) {
        let elements = match selector {
            Selector::Wildcard => return self.wildcard = true,
            Selector::Name(name) => return self.names.push(name.as_str().into()),
            Selector::Index(index) => ElementSelector::Index(*index),
            Selector::Slice(slice) => ElementSelector::Slice(*slice),
            Selector::Filter(_) => unreachable!("queries with filters are not compiled to a program"),
        };
        self.elements.push(elements);
    }

    /// Removes duplicates.
    fn settle(&mut self) {
        self.names.sort_unstable();
        self.names.dedup();
        self.elements.sort_unstable();
        self.elements.dedup();
    }
}

/// A set of states, and its transitions once they were needed.
#[derive(Debug)]
struct StateSet {
    states: Arc<[AutomatonState]>,
    /// Scalars of the document with this set, if it selects.
    scalars: u64,
    row: Option<Box<TransitionRow>>,
}

impl StateSet {
    fn new(states: Arc<[AutomatonState]>) -> Self {
        StateSet { states, scalars: 0, row: None }
    }
}

/// The automaton's state for one document.
#[derive(Debug)]
pub(crate) struct Automaton {
    program: Arc<CompiledQueries>,
    other_case: CaseFold,
    follows_paths: bool,
    /// The ends of queries that select are below this one.
    selecting: AutomatonState,
    detail: Detail,
    sets: Vec<StateSet>,
    ids: HashMap<Arc<[AutomatonState]>, SetId>,
    start: SetId,
    /// Scalars by the query that selects them, excluding those counted by set.
    counted: Vec<u64>,
    coverage: Option<Box<Coverage>>,
    /// The sets of members with the states that paths add.
    joined: HashMap<(SetId, SetId), SetId>,
    /// States under construction, and a name being unescaped: kept to reuse their memory.
    scratch: Vec<AutomatonState>,
    name: String,
    folded: Vec<u8>,
}

impl Automaton {
    pub(crate) fn new(program: Arc<CompiledQueries>, detail: Detail) -> Self {
        let mut automaton = Automaton {
            sets: vec![StateSet::new(Arc::new([]))],
            ids: HashMap::new(),
            start: SetId::NOTHING,
            counted: Vec::new(),
            coverage: None,
            scratch: program.starts.to_vec(),
            name: String::new(),
            folded: Vec::new(),
            other_case: program.other_case,
            follows_paths: program.paths.is_some(),
            selecting: program.paths.map_or(program.queries, Paths::selecting),
            joined: HashMap::new(),
            program,
            detail,
        };
        automaton.start = automaton.number_scratch();
        automaton
    }

    /// The set of the document's root.
    pub(crate) fn start(&self) -> SetId {
        self.start
    }

    /// Counts a selected scalar with this set.
    #[inline(always)]
    pub(crate) fn count(&mut self, set: SetId) {
        self.sets[set.index()].scalars += 1;
        if self.coverage.is_some() {
            self.cover(set);
        }
    }

    /// From now on a document follows another, in each of which it is of interest which queries select something.
    pub(crate) fn begin_covered(&mut self) {
        self.coverage.get_or_insert_default().begin(self.program.queries as usize);
    }

    /// The first query that has selected nothing since [`Automaton::begin_covered`].
    pub(crate) fn uncovered(&self) -> Option<usize> {
        self.coverage.as_ref()?.uncovered()
    }

    /// Records that the queries which select a value with this set have selected something.
    fn cover(&mut self, set: SetId) {
        let Some(coverage) = &mut self.coverage else { return };
        if !coverage.is_new(set.0) {
            return;
        }
        let states = self.sets[set.index()].states.iter().copied();
        coverage.cover(states.take_while(|&state| state < self.program.queries));
    }

    /// The number of scalars that each query has selected so far, in the order of the queries.
    pub(crate) fn matched(&self) -> Vec<u64> {
        let mut matched = self.counted.clone();
        matched.resize(self.program.queries as usize, 0);
        for set in self.sets.iter().filter(|set| set.scalars > 0) {
            let ends = set.states.iter().take_while(|&&state| state < self.program.queries);
            ends.for_each(|&query| matched[query as usize] += set.scalars);
        }
        matched
    }

    /// The set of a member, by its name's token in the document.
    ///
    /// # Errors
    /// The name is refused because of its case, or is too long to be followed as a path.
    #[inline]
    pub(crate) fn member(&mut self, set: SetId, token: &[u8], escaped: bool) -> Result<Member, AmbiguousName> {
        let member = self.member_as_written(set, token, escaped)?;
        match self.follows_paths && member.name == Member::UNNAMED {
            true => Ok(Member::unnamed(self.by_paths(set, member.set, token, escaped)?)),
            false => Ok(member),
        }
    }

    #[inline]
    fn member_as_written(&mut self, set: SetId, token: &[u8], escaped: bool) -> Result<Member, AmbiguousName> {
        if self.sets[set.index()].row.is_none() {
            self.build_row(set);
        }
        let row = self.sets[set.index()].row.as_ref().expect("built above");
        if row.names.is_empty() {
            return Ok(Member::unnamed(row.other));
        }
        if self.other_case == CaseFold::Same {
            return Ok(match escaped || !token.is_ascii() {
                false => self.ascii_member_in_any_case(set, &token[1..token.len() - 1]),
                true => self.member_in_any_case(set, token),
            });
        }
        if !escaped {
            return row.guarded(&token[1..token.len() - 1]);
        }
        // The longest is the last.
        let size_max = row.names.last().map_or(0, |(name, _)| name.len());
        if !may_unescape_to(token, size_max.saturating_mul(row.growth())) {
            return Ok(Member::unnamed(row.other));
        }
        // A name that is not Unicode cannot equal a selector's, which is.
        match unescape(token, &mut self.name) {
            // Parsers in C end a name at a NUL.
            Ok(name) if !row.folded.is_empty() && name.contains('\0') => {
                row.refused(name.split('\0').next().unwrap_or(name))
            }
            Ok(name) => row.guarded(name.as_bytes()),
            Err(_) => Ok(Member::unnamed(row.other)),
        }
    }

    /// The same for a name in ASCII without escapes, which only equals folded names of its length.
    #[inline]
    fn ascii_member_in_any_case(&mut self, set: SetId, name: &[u8]) -> Member {
        let row = self.sets[set.index()].row.as_ref().expect("the caller built it");
        if row.lengths & length_bit(name.len()) == 0 {
            return Member::unnamed(row.other);
        }
        self.folded.clear();
        self.folded.extend(name.iter().map(u8::to_ascii_lowercase));
        row.named(&self.folded)
    }

    /// The same if case is ignored. The row has been built.
    #[cold]
    fn member_in_any_case(&mut self, set: SetId, token: &[u8]) -> Member {
        let row = self.sets[set.index()].row.as_ref().expect("the caller built it");
        let size_max = row.names.last().map_or(0, |(name, _)| name.len());
        if !may_unescape_to(token, size_max.saturating_mul(FOLDED_GROWTH_MAX)) {
            return Member::unnamed(row.other);
        }
        let mut name = String::new();
        let Ok(text) = unescape(token, &mut self.name) else { return Member::unnamed(row.other) };
        fold_into(text.split('\0').next().unwrap_or(text), &mut name);
        row.named(name.as_bytes())
    }

    /// Returns the set of element `index` of an array; `length` is used only if [`CompiledQueries::needs_lengths`].
    #[inline]
    pub(crate) fn element(&mut self, set: SetId, index: u32, length: u32) -> SetId {
        if self.sets[set.index()].row.is_none() {
            self.build_row(set);
        }
        let row = self.sets[set.index()].row.as_ref().expect("built above");
        if row.indexes.is_empty() && row.ranges.is_empty() {
            return row.other;
        }
        self.computed_element(set, i64::from(index), i64::from(length))
    }

    fn computed_element(&mut self, set: SetId, index: i64, length: i64) -> SetId {
        let row = self.sets[set.index()].row.as_ref().expect("the caller built it");
        let added = &mut self.scratch;
        added.clear();
        added.extend_from_slice(&row.base);
        let first = row.indexes.partition_point(|&(at, _)| at < index);
        added.extend(row.indexes[first..].iter().take_while(|&&(at, _)| at == index).map(|&(_, state)| state));
        let ranges = row.ranges.iter().filter(|(elements, _)| elements.selects(index, length));
        added.extend(ranges.map(|&(_, state)| state));
        if added.len() == row.base.len() {
            return row.other;
        }
        normalize(added);
        if row.last_element.0 == *added {
            return row.last_element.1;
        }
        let states = added.clone();
        let id = self.number_scratch();
        let row = self.sets[set.index()].row.as_mut().expect("the caller built it");
        row.last_element = (states, id);
        id
    }

    /// Numbers the set of states in `scratch`.
    fn number_scratch(&mut self) -> SetId {
        if self.scratch.is_empty() {
            return SetId::NOTHING;
        }
        normalize(&mut self.scratch);
        let ends = self.scratch.partition_point(|&state| state < self.program.queries);
        let wants_scalars = self.detail == Detail::Scalars;
        if ends > 0 && wants_scalars {
            self.drop_ended(ends);
        }
        if let Some(&id) = self.ids.get(&self.scratch[..]) {
            return id;
        }
        let states: Arc<[AutomatonState]> = self.scratch.as_slice().into();
        let is_selected = states.first().is_some_and(|&state| state < self.selecting);
        let id = SetId::new(self.sets.len(), is_selected, wants_scalars && ends == states.len());
        self.sets.push(StateSet::new(Arc::clone(&states)));
        self.ids.insert(states, id);
        id
    }

    /// Removes the states in `scratch` of queries whose ends are among the first `ends`: what they would find is selected already.
    fn drop_ended(&mut self, ends: usize) {
        let mut kept = ends;
        for at in ends..self.scratch.len() {
            let state = self.scratch[at];
            if self.scratch[..ends].binary_search(&self.program.steps[state as usize].query).is_err() {
                self.scratch[kept] = state;
                kept += 1;
            }
        }
        self.scratch.truncate(kept);
    }

    fn number(&mut self, states: &[AutomatonState]) -> SetId {
        self.scratch.clear();
        self.scratch.extend_from_slice(states);
        self.number_scratch()
    }

    #[cold]
    fn build_row(&mut self, set: SetId) {
        let program = Arc::clone(&self.program);
        let states = Arc::clone(&self.sets[set.index()].states);
        let steps = || states.iter().map(|&state| (state, &program.steps[state as usize]));
        let ends = if self.detail == Detail::Scalars { program.queries } else { 0 };
        let stay = steps().filter(|(state, step)| step.descends || *state < ends).map(|(state, _)| state);
        let wild = steps().filter(|(_, step)| step.wildcard).map(|(_, step)| step.next);
        let mut base: Vec<AutomatonState> = stay.chain(wild).collect();
        normalize(&mut base);
        let mut row = TransitionRow {
            other: self.number(&base),
            names: Vec::new(),
            folded: Vec::new(),
            lengths: 0,
            base,
            indexes: Vec::new(),
            ranges: Vec::new(),
            last_element: (Vec::new(), SetId::NOTHING),
        };
        let mut by_name: HashMap<Cow<'_, str>, Vec<AutomatonState>> = HashMap::new();
        for (_, step) in steps() {
            for name in &step.names {
                let name = match self.other_case {
                    CaseFold::Same => Cow::Owned(folded(name)),
                    CaseFold::Refuse | CaseFold::Other => Cow::Borrowed(&**name),
                };
                by_name.entry(name).or_insert_with(|| row.base.clone()).push(step.next);
            }
            for elements in &step.elements {
                match elements {
                    ElementSelector::Index(index) if *index >= 0 => row.indexes.push((*index, step.next)),
                    elements => row.ranges.push((*elements, step.next)),
                }
            }
        }
        row.names = by_name.iter().map(|(name, states)| (name.as_bytes().into(), self.number(states))).collect();
        row.names.sort_unstable_by(|(left, _), (right, _)| by_length(left, right));
        match self.other_case {
            CaseFold::Refuse => row.guard(by_name.keys().map(|name| folded(name).into()).collect()),
            CaseFold::Same => row.lengths = lengths(by_name.keys().map(|name| name.len())),
            CaseFold::Other => {}
        }
        row.indexes.sort_unstable();
        self.sets[set.index()].row = Some(Box::new(row));
    }

    /// Whether [`Automaton::forget`] should be called.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.sets.len() > SETS_MAX
    }

    /// Evicts all sets but those in use, and renumbers these.
    #[cold]
    pub(crate) fn forget<'a>(&mut self, in_use: impl Iterator<Item = &'a mut SetId>) {
        self.counted = self.matched();
        if let Some(coverage) = &mut self.coverage {
            coverage.forget();
        }
        let old = std::mem::replace(&mut self.sets, vec![StateSet::new(Arc::new([]))]);
        self.ids.clear();
        self.joined.clear();
        for id in in_use.filter(|id| **id != SetId::NOTHING) {
            *id = self.number(&old[id.index()].states);
        }
        let starts = Arc::clone(&self.program);
        self.start = self.number(&starts.starts);
    }
}

fn normalize(states: &mut Vec<AutomatonState>) {
    states.sort_unstable();
    states.dedup();
}
