import { checkBoolean, checkFunction, checkKeys, checkNumber, type NumberBounds, optionError } from './check.js';
import { type Clock, systemClock } from './clock.js';

/** One option: its default, and the check of a given value, which throws EVENKEEL_OPTION. */
export interface Option<T> {
  readonly default: T;
  /** @param name Of the option, with its path, for the error. */
  readonly check: (name: string, value: unknown) => T;
}

/** A table with every option of an interface: `const table = optionTable('pool', { … } satisfies OptionsOf<PoolOptions>)`. */
export type OptionsOf<O> = { readonly [Name in keyof O]-?: Option<O[Name]> | Option<Exclude<O[Name], undefined>> };

/** What a table's options are once defaults are filled in. */
export type Resolved<Options> = {
  readonly [Name in keyof Options]: Options[Name] extends Option<infer T> ? T : never;
};

/** Says once what a group of options is: names, defaults and bounds. */
export interface OptionTable<Options> {
  readonly names: readonly (keyof Options & string)[];
  readonly defaults: Resolved<Options>;
  /** Fills in defaults. Throws EVENKEEL_OPTION for a wrong value or an unknown name. */
  resolve(options: unknown): Resolved<Options>;
}

/**
 * @param path Of the group, for errors: `pool` for `pool.connectTimeoutMs`. Options that are the caller's own argument are the group `options`,
 * and are named without it.
 */
export function optionTable<Options extends Readonly<Record<string, Option<unknown>>>>(
  path: string,
  options: Options,
): OptionTable<Options> {
  const entries = Object.entries(options);
  const names = Object.keys(options) as (keyof Options & string)[];
  const prefix = path === 'options' ? '' : `${path}.`;
  const defaults = Object.fromEntries(entries.map(([name, option]) => [name, option.default])) as Resolved<Options>;
  return {
    names,
    defaults: Object.freeze(defaults),
    resolve(options = {}) {
      checkKeys(path, options, names);
      const values = options as Readonly<Record<string, unknown>>;
      const resolved = entries.map(([name, option]) => {
        const value = values[name];
        return [name, value === undefined ? option.default : option.check(`${prefix}${name}`, value)];
      });
      return Object.fromEntries(resolved) as Resolved<Options>;
    },
  };
}

export const numberOption = (fallback: number, bounds: NumberBounds = {}): Option<number> => ({
  default: fallback,
  check: (name, value) => checkNumber(name, value, fallback, bounds),
});

export const booleanOption = (fallback: boolean): Option<boolean> => ({
  default: fallback,
  check: (name, value) => checkBoolean(name, value, fallback),
});

/** A function that may be left out. */
export const functionOption = <T>(): Option<T | undefined> => ({
  default: undefined,
  check(name, value) {
    checkFunction(name, value);
    return value as T;
  },
});

/** An option with a check of its own. */
export const checkedOption = <T>(fallback: T, check: (name: string, value: unknown) => T): Option<T> => ({
  default: fallback,
  check,
});

/** A number that may be left out. */
export const optionalNumber = (bounds: NumberBounds): Option<number | undefined> =>
  checkedOption<number | undefined>(undefined, (name, value) => checkNumber(name, value, 0, bounds));

/** A value that may be left out, and is checked where it is used. */
export const anyOption = <T>(): Option<T | undefined> =>
  checkedOption<T | undefined>(undefined, (_name, value) => value as T);

export const clockOption: Option<Clock> = checkedOption(systemClock, (name, value) => {
  if (typeof value !== 'object' || value === null) throw optionError(name, 'a clock with now, timer and defer', value);
  const clock = value as Clock;
  checkFunction(`${name}.now`, clock.now);
  checkFunction(`${name}.timer`, clock.timer);
  checkFunction(`${name}.defer`, clock.defer);
  return clock;
});
