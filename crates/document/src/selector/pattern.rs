//! Matches patterns of `match` and `search`: a lazy automaton whose states are computed as texts require them, and that reads a text in
//! pieces.
//!
//! Compiling takes time proportional to the memory of a pattern, and a new state time proportional to the number of its states, so both are
//! limited by `pattern_size_max`, and the caller charges compilation; a byte of text that leads to a cached state costs nanoseconds.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::util::start;
use regex_automata::{Anchored, MatchKind};
use regex_syntax::hir::{Hir, Look};

use super::ast::Extent;
use super::iregexp;
pub(crate) use super::iregexp::TooLarge;

/// Limit of cached states, as a multiple of the pattern's memory limit.
const CACHE_FACTOR: usize = 3;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    automaton: Arc<DFA>,
    anchored: Anchored,
    /// Its size in bytes.
    size: usize,
}

impl Pattern {
    /// Its size in bytes, to which the time of compiling it is proportional.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The number of its states, to which the time of computing a state of the automaton is proportional.
    pub(crate) fn states(&self) -> usize {
        self.automaton.get_nfa().states().len()
    }
}

/// A pattern of a selector; it is compiled once, on first use.
#[derive(Debug)]
pub(crate) struct FixedPattern {
    text: String,
    extent: Extent,
    compiled: OnceLock<Result<Option<Pattern>, TooLarge>>,
}

impl FixedPattern {
    pub(super) fn new(text: String, extent: Extent) -> Self {
        FixedPattern { text, extent, compiled: OnceLock::new() }
    }

    /// The length of its text in bytes.
    pub(crate) fn length(&self) -> usize {
        self.text.len()
    }

    /// As [`compile`].
    pub(crate) fn get(&self, size_max: usize) -> Result<Option<Pattern>, TooLarge> {
        self.compiled.get_or_init(|| compile(&self.text, self.extent, size_max)).clone()
    }
}

/// Compiles a pattern that matches the whole or a part of a text; returns `None` if it is not an I-Regexp (RFC 9485).
pub(crate) fn compile(pattern: &str, extent: Extent, size_max: usize) -> Result<Option<Pattern>, TooLarge> {
    let Some(parsed) = iregexp::parse(pattern, size_max)? else { return Ok(None) };
    let (anchored, parsed) = match extent {
        Extent::Whole => (Anchored::Yes, Hir::concat(vec![Hir::look(Look::Start), parsed, Hir::look(Look::End)])),
        Extent::Part => (Anchored::No, parsed),
    };
    let Some(nfa) = COMPILER.with_borrow_mut(|compiler| compiler.build(&parsed, size_max))? else {
        return Ok(None);
    };
    let size = nfa.memory_usage();
    let config = DFA::config()
        .match_kind(MatchKind::All)
        .cache_capacity(size_max.saturating_mul(CACHE_FACTOR))
        .skip_cache_capacity_check(true);
    let dfa = DFA::builder().configure(config).build_from_nfa(nfa);
    let automaton = Arc::new(dfa.expect("the capacity is raised to what it takes"));
    Ok(Some(Pattern { automaton, anchored, size }))
}

/// A compiler that keeps its tables, which take longer to create than most patterns.
struct Compiler {
    size_max: usize,
    compiler: thompson::Compiler,
}

thread_local! {
    static COMPILER: RefCell<Compiler> = RefCell::new(Compiler::new(0));
}

impl Compiler {
    fn new(size_max: usize) -> Self {
        let config = thompson::Config::new().nfa_size_limit(Some(size_max)).which_captures(WhichCaptures::None);
        let mut compiler = NFA::compiler();
        compiler.configure(config);
        Compiler { size_max, compiler }
    }

    /// As [`compile`], from a parsed pattern.
    fn build(&mut self, pattern: &Hir, size_max: usize) -> Result<Option<NFA>, TooLarge> {
        if self.size_max != size_max {
            *self = Compiler::new(size_max);
        }
        match self.compiler.build_from_hir(pattern) {
            Ok(nfa) => Ok(Some(nfa)),
            Err(error) if error.size_limit().is_some() => Err(TooLarge),
            Err(_) => Ok(None),
        }
    }
}

/// A pattern with the cached states of its automaton.
#[derive(Debug)]
pub(crate) struct Searcher {
    pattern: Pattern,
    cache: Cache,
}

/// A state of the automaton, valid for the searcher that returned it until another search begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchState(LazyStateID);

impl Searcher {
    pub(crate) fn new(pattern: Pattern) -> Self {
        let cache = pattern.automaton.create_cache();
        Searcher { pattern, cache }
    }

    /// The state before a text.
    pub(crate) fn start(&mut self) -> SearchState {
        let config = start::Config::new().anchored(self.pattern.anchored);
        let state = self.pattern.automaton.start_state(&mut self.cache, &config);
        SearchState(state.expect("states are forgotten, never refused"))
    }

    /// Reads a piece; returns true if the text matches, whatever follows.
    pub(crate) fn read(&mut self, state: &mut SearchState, piece: &[u8]) -> bool {
        for &byte in piece {
            let next = self.pattern.automaton.next_state(&mut self.cache, state.0, byte);
            state.0 = next.expect("states are forgotten, never refused");
            if state.0.is_match() {
                return true;
            }
        }
        false
    }

    /// Whether the text cannot match, whatever follows.
    pub(crate) fn is_hopeless(&self, state: SearchState) -> bool {
        state.0.is_dead()
    }

    /// Whether the text matches if it ends here.
    pub(crate) fn matches_at_end(&mut self, state: SearchState) -> bool {
        let end = self.pattern.automaton.next_eoi_state(&mut self.cache, state.0);
        end.expect("states are forgotten, never refused").is_match()
    }

    /// See [`Pattern::states`].
    pub(crate) fn states(&self) -> usize {
        self.pattern.states()
    }

    /// Changes whenever a state is computed, which takes long compared with a step to a cached one.
    pub(crate) fn states_made(&self) -> (usize, usize) {
        (self.cache.memory_usage(), self.cache.clear_count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE_MAX: usize = 64 << 10;

    /// Whether the pattern matches the text, read `piece` bytes at a time.
    fn matches(pattern: &Pattern, text: &str, piece: usize) -> bool {
        let mut searcher = Searcher::new(pattern.clone());
        let mut state = searcher.start();
        text.as_bytes().chunks(piece).any(|piece| searcher.read(&mut state, piece)) || searcher.matches_at_end(state)
    }

    fn search(pattern: &str, extent: Extent, text: &str) -> Option<bool> {
        let pattern = compile(pattern, extent, SIZE_MAX).expect("not too large")?;
        let whole = matches(&pattern, text, usize::MAX);
        (1..4).for_each(|piece| assert_eq!(matches(&pattern, text, piece), whole, "{piece} bytes at a time"));
        Some(whole)
    }

    fn whole(pattern: &str, text: &str) -> Option<bool> {
        search(pattern, Extent::Whole, text)
    }

    #[test]
    fn patterns_follow_the_rfc() {
        let rows = [
            ("", "", true),
            ("a|", "", true),
            ("a|b", "b", true),
            ("a|b", "ab", false),
            ("a.c", "a\u{10000}c", true),
            ("a.c", "a\nc", false),
            ("a.c", "a\rc", false),
            ("a.c", "a\u{2028}c", true),
            ("[^a]", "\n", true),
            ("[-a]", "-", true),
            ("[a-]", "-", true),
            ("[a-c]+", "abc", true),
            ("[&&a]", "&", true),
            ("[~~]", "~", true),
            ("a{2}", "aa", true),
            ("a{2,}", "aaaa", true),
            ("a{2,3}", "aaaa", false),
            (r"\p{Lu}\P{Lu}", "Aa", true),
            (r"[\p{Nd}x]+", "1x2", true),
            (r"\.\t\-\$", ".\t-$", true),
            ("(a(b)?)+", "aba", true),
            ("#a b", "#a b", true),
            ("^a$", "a", true),
        ];
        for (pattern, text, expected) in rows {
            assert_eq!(whole(pattern, text), Some(expected), "{pattern:?} on {text:?}");
        }
        let parts = [
            ("b.?b", "abcbd", true),
            ("b.?b", "abccbd", false),
            ("^b", "ab", false),
            ("b$", "ab", true),
            ("", "", true),
        ];
        for (pattern, text, expected) in parts {
            assert_eq!(search(pattern, Extent::Part, text), Some(expected), "{pattern:?} in {text:?}");
        }
    }

    #[test]
    fn invalid_i_regexps_compile_to_nothing() {
        let patterns = [
            "(",
            ")",
            "a)",
            "[",
            "[]",
            "[^]",
            "[a",
            "a**",
            "*",
            "a{",
            "a{,2}",
            "a{x}",
            "a{3,2}",
            r"\d",
            r"\w",
            r"\b",
            r"\1",
            r"\",
            r"\p{Greek}",
            r"\pL",
            "(?i)a",
            "(?:a)",
            "[a-c-e]",
            "[[:alpha:]]",
            "a++",
            "a*?",
            "]",
            "}",
            r"[\p{L}-z]",
            "[z-a]",
        ];
        for pattern in patterns {
            assert_eq!(whole(pattern, ""), None, "{pattern:?}");
        }
        assert_eq!(search(&"(".repeat(100_000), Extent::Part, ""), None);
    }

    #[test]
    fn excessive_memory_is_an_error_and_not_a_mismatch() {
        for pattern in ["((((a{100}){100}){100}){100})", r"\p{L}\p{N}\p{S}\p{C}\p{P}\p{L}"] {
            assert_eq!(compile(pattern, Extent::Whole, SIZE_MAX).err(), Some(TooLarge), "{pattern:?}");
        }
        for pattern in [r"\p{L}+ \p{Lu}", r"[\p{Lu}a-z]{2,6}|(x)?"] {
            assert!(compile(pattern, Extent::Whole, SIZE_MAX).is_ok(), "{pattern:?}");
        }
    }

    /// Parsing such a class takes milliseconds if it is sorted for each of its characters, or if each category is counted again.
    #[test]
    fn the_items_of_a_class_are_counted_before_sorting() {
        let descending: String = (0..1300_u32).rev().filter_map(|at| char::from_u32(0x1000 + 2 * at)).collect();
        let class = compile(&format!("[{descending}]"), Extent::Part, SIZE_MAX).expect("not too large");
        assert!(class.expect("an I-Regexp").size() <= SIZE_MAX);
        let repeated = compile(&format!("[{}]", r"\p{L}\P{L}".repeat(400)), Extent::Whole, SIZE_MAX);
        assert!(repeated.expect("each category counts once").is_some());
        let every: String = iregexp::categories().map(|name| format!(r"\p{{{name}}}\P{{{name}}}")).collect();
        assert_eq!(compile(&format!("[{every}]"), Extent::Whole, SIZE_MAX).err(), Some(TooLarge));
        assert_eq!(compile(&r"\p{L}".repeat(600), Extent::Whole, SIZE_MAX).err(), Some(TooLarge));
        assert_eq!(compile(&format!("[{}]", "ab".repeat(9000)), Extent::Whole, SIZE_MAX).err(), Some(TooLarge));
    }

    /// For patterns with the same meaning in the crate's own parser, both match the same texts.
    #[test]
    fn patterns_match_as_in_the_crates_own_parser() {
        let patterns = [
            "a|b|",
            "(a|bc)*d?",
            "[a-cx]+[^b]{1,2}",
            "(ab){2}",
            "(a?b?){2,3}c",
            "^a+$|b",
            "((a))b|c^",
            "[b-]{0}a",
            "a{0,1}[ab]$",
            r"\p{Ll}\P{Ll}?",
            r"[\P{L}a]+",
            r"[^\p{Lu}\p{Nd}]{2,}",
        ];
        let texts = ["", "a", "b", "ab", "abab", "bcd", "xax", "aB1", "A-1", "aab\u{e9}", "c", "cc\nb"];
        for pattern in patterns {
            for (extent, framed) in [(Extent::Whole, format!(r"\A(?:{pattern})\z")), (Extent::Part, pattern.to_owned())]
            {
                let reference = regex_automata::hybrid::regex::Regex::new(&framed).expect("it means the same there");
                let mut cache = reference.create_cache();
                for text in texts {
                    let expected = reference.is_match(&mut cache, text);
                    assert_eq!(search(pattern, extent, text), Some(expected), "{pattern:?} on {text:?}, {extent:?}");
                }
            }
        }
    }

    #[test]
    fn a_search_continues_when_states_are_evicted() {
        // Tracking which of the last twelve characters were an `a` needs thousands of states.
        let pattern = compile("a[ac]{12}b", Extent::Part, 4 << 10).expect("not too large").expect("an I-Regexp");
        let mut random = 88_172_645_463_325_252_u64;
        let mut character = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if random.is_multiple_of(2) { 'a' } else { 'c' }
        };
        let mut text: String = (0..20_000).map(|_| character()).collect();
        let mut searcher = Searcher::new(pattern);
        let mut state = searcher.start();
        for piece in text.as_bytes().chunks(7) {
            assert!(!searcher.read(&mut state, piece));
        }
        assert!(searcher.states_made().1 > 0, "the memory was too large for the test");
        assert!(!searcher.matches_at_end(state));
        text = format!("a{}b", "c".repeat(12));
        assert!(searcher.read(&mut state, text.as_bytes()) || searcher.matches_at_end(state));
    }
}
