//! Statistics of repeated measurements and of histogram buckets.

/// Returns the median; of an even count, the mean of the two middle numbers; 0 if empty.
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    match numbers.len() {
        0 => 0.0,
        count if count % 2 == 1 => numbers[count / 2],
        count => (numbers[count / 2 - 1] + numbers[count / 2]) / 2.0,
    }
}

/// Returns half of the range as a share of the median, which shows how much rounds differ; 0 if empty.
pub fn spread(numbers: &[f64]) -> f64 {
    let middle = median(numbers.to_vec());
    let (least, greatest) = numbers.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, greatest), &number| {
        (least.min(number), greatest.max(number))
    });
    if middle > 0.0 { (greatest - least) / 2.0 / middle } else { 0.0 }
}

/// Returns the quantile at `share`, from 0 to 1, of values in ascending order with their counts; `None` if empty.
pub fn quantile<T: Copy>(counts: &[(T, u64)], share: f64) -> Option<T> {
    let count: u64 = counts.iter().map(|(_, count)| count).sum();
    let rank = (count as f64 * share).ceil().max(1.0) as u64;
    let mut below = 0;
    let reaches = |&&(_, count): &&(T, u64)| {
        below += count;
        below >= rank
    };
    counts.iter().find(reaches).map(|(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_sparse_counts() {
        let counts = [(10, 98), (20, 1), (900, 1)];
        assert_eq!([0.0, 0.5, 0.98, 0.99, 1.0].map(|share| quantile(&counts, share)), [10, 10, 10, 20, 900].map(Some));
        assert_eq!(quantile::<u64>(&[], 0.5), None);
    }

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), 0.0);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn spreads() {
        assert_eq!(spread(&[]), 0.0);
        assert_eq!(spread(&[5.0]), 0.0);
        assert_eq!(spread(&[9.0, 10.0, 12.0]), 0.15);
    }
}
