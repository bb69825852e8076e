//! Small statistics of repeated measurements.

/// The middle of some numbers, of the two in the middle the mean. 0 of none.
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    match numbers.len() {
        0 => 0.0,
        count if count % 2 == 1 => numbers[count / 2],
        count => (numbers[count / 2 - 1] + numbers[count / 2]) / 2.0,
    }
}

/// Half the distance from the least to the greatest, as a share of the median: how far rounds differ. 0 of none.
pub fn spread(numbers: &[f64]) -> f64 {
    let middle = median(numbers.to_vec());
    let (least, greatest) = numbers.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, greatest), &number| {
        (least.min(number), greatest.max(number))
    });
    if middle > 0.0 { (greatest - least) / 2.0 / middle } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

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
