import { expect, it } from 'vitest';
import { checkString } from '../../../src/runtime/check.js';
import type { Filled } from '../../../src/runtime/complete.js';
import {
  booleanOption,
  choiceOption,
  functionOption,
  numberOption,
  type OptionTable,
  optionTable,
  requiredOption,
} from '../../../src/runtime/options.js';

interface TeaOptions {
  readonly minutes?: number | undefined;
  readonly sugar?: boolean | undefined;
  readonly onReady?: (() => void) | undefined;
  readonly milk?: 'oat' | 'cow' | 'none' | undefined;
}

const table: OptionTable<Filled<TeaOptions, 'onReady'>> = optionTable('tea', {
  minutes: numberOption(3, { min: 1, max: 10 }),
  sugar: booleanOption(false),
  onReady: functionOption<() => void>(),
  milk: choiceOption('none', ['oat', 'cow', 'none']),
});

it('an option table has names and defaults', () => {
  expect(table.names).toEqual(['minutes', 'sugar', 'onReady', 'milk']);
  expect(table.defaults).toEqual({ minutes: 3, sugar: false, onReady: undefined, milk: 'none' });
  expect(Object.isFrozen(table.defaults)).toBe(true);
});

it('an option table fills in what is left out, or undefined', () => {
  expect(table.resolve(undefined)).toEqual(table.defaults);
  expect(table.resolve({ minutes: undefined, sugar: true })).toEqual({
    minutes: 3,
    sugar: true,
    onReady: undefined,
    milk: 'none',
  });
});

it.each([
  [null, 'tea must be an object, got null'],
  [{ minutes: 11 }, 'tea.minutes must be a number from 1 to 10, got 11'],
  [{ sugar: 'yes' }, 'tea.sugar must be true or false, got "yes"'],
  [{ milk: 'soy' }, "tea.milk must be 'oat', 'cow' or 'none', got \"soy\""],
  [{ onReady: 5 }, 'tea.onReady must be a function, got 5'],
  [{ minuets: 3 }, 'tea has no option "minuets" (did you mean "minutes"?); it knows minutes, sugar, onReady, milk'],
])('%o is refused: %s', (given, message) => {
  expect(() => table.resolve(given)).toThrow(expect.objectContaining({ code: 'EVENKEEL_OPTION', message }));
});

it('an option table refuses a missing required option', () => {
  const cup: OptionTable<{ readonly size: string }> = optionTable('cup', { size: requiredOption(checkString) });
  expect(cup.resolve({ size: 'small' })).toEqual({ size: 'small' });
  expect(() => cup.resolve({})).toThrow('cup.size must be a non-empty string, got undefined');
});
