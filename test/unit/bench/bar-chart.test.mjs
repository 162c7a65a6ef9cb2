import { expect, test } from 'vitest';
import { barChart } from '../../bench/lib/bar-chart.mjs';

const chart = (/** @type {number[]} */ ...values) =>
  barChart({
    title: 'a < b & c',
    subtitle: 'requests',
    rows: values.map((value, index) => ({ label: `row ${index}`, value, note: `${value}`, ours: index === 0 })),
  });
/** Lengths of the bars, the background left out. @param {string} svg */
const bars = (svg) => [...svg.matchAll(/<rect x="\d+" y="\d+" width="([\d.]+)"/g)].map(([, width]) => Number(width));

test('bars are as long as their values', () => {
  const [first, second, third] = bars(chart(10, 5, 0));
  expect(Number(first) / Number(second)).toBeCloseTo(2, 1);
  expect(third).toBe(0);
});

test('an empty list is drawn as nothing', () => {
  expect(bars(chart(0, 0))).toEqual([0, 0]);
});

test('special characters of XML are escaped, and the same numbers give the same picture', () => {
  expect(chart(1)).toContain('a &lt; b &amp; c');
  expect(chart(1, 2)).toBe(chart(1, 2));
});

test("evenkeel's bars look different from the others", () => {
  const fills = [...chart(1, 2, 3).matchAll(/fill="(#[0-9a-f]{6})"\/>/g)].map(([, fill]) => fill).slice(1);
  expect(new Set(fills).size).toBe(2);
  expect(fills[1]).toBe(fills[2]);
});
