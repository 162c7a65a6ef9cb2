import { expect, it } from 'vitest';
import {
  booleanOption,
  functionOption,
  numberOption,
  type OptionsOf,
  optionTable,
} from '../../../src/runtime/options.js';

interface TeaOptions {
  readonly minutes?: number | undefined;
  readonly sugar?: boolean | undefined;
  readonly onReady?: (() => void) | undefined;
}

const table = optionTable('tea', {
  minutes: numberOption(3, { min: 1, max: 10 }),
  sugar: booleanOption(false),
  onReady: functionOption<() => void>(),
} satisfies OptionsOf<TeaOptions>);

it('says names and defaults', () => {
  expect(table.names).toEqual(['minutes', 'sugar', 'onReady']);
  expect(table.defaults).toEqual({ minutes: 3, sugar: false, onReady: undefined });
  expect(Object.isFrozen(table.defaults)).toBe(true);
});

it('fills in what is left out, or undefined', () => {
  expect(table.resolve(undefined)).toEqual(table.defaults);
  expect(table.resolve({ minutes: undefined, sugar: true })).toEqual({ minutes: 3, sugar: true, onReady: undefined });
});

it.each([
  [null, 'tea must be an object, got null'],
  [{ minutes: 11 }, 'tea.minutes must be a number from 1 to 10, got 11'],
  [{ sugar: 'yes' }, 'tea.sugar must be true or false, got "yes"'],
  [{ onReady: 5 }, 'tea.onReady must be a function, got 5'],
  [{ minuets: 3 }, 'tea has no option "minuets" (did you mean "minutes"?); it knows minutes, sugar, onReady'],
])('%o is refused: %s', (given, message) => {
  expect(() => table.resolve(given)).toThrow(expect.objectContaining({ code: 'EVENKEEL_OPTION', message }));
});
