/** The median of the first `count` numbers (at least one), which it reorders. For an even number, the lower of the two middle ones. */
export const lowerMedian = (values: Float64Array, count: number): number => nth(values, count, (count - 1) >> 1);

/**
 * The number at index `wanted` if the first `count` numbers were sorted; it reorders them. O(n) on average: sorting thousands of endpoints
 * several times a second would be noticeable.
 * Source: Hoare, Algorithm 65: Find, CACM 4(7), 1961.
 */
export function nth(values: Float64Array, count: number, wanted: number): number {
  let from = 0;
  let to = count - 1;
  while (from < to) {
    const pivot = values[(from + to) >> 1] as number;
    let low = from;
    let high = to;
    while (low <= high) {
      while ((values[low] as number) < pivot) low++;
      while ((values[high] as number) > pivot) high--;
      if (low > high) break;
      const value = values[low] as number;
      values[low++] = values[high] as number;
      values[high--] = value;
    }
    if (wanted <= high) to = high;
    else if (wanted >= low) from = low;
    else break;
  }
  return values[wanted] as number;
}
