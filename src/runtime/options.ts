import {
  checkBoolean,
  checkFunction,
  checkKeys,
  checkNumber,
  checkString,
  type NumberBounds,
  optionError,
} from './check.js';
import { type Clock, systemClock } from './clock.js';
import { ownProperties } from './own-properties.js';
import { systemRng } from './random32.js';
import type { Rng } from './rng.js';

/** The default value of an option and the check of its values. */
export interface Option<T> {
  /** The value that is used if the option is left out. */
  readonly default: T;
  /** Whether the option must be given. If so, `check` is called for undefined as well. */
  readonly isRequired?: boolean;
  /** Which numbers the option may take; used to write the reference documentation. */
  readonly bounds?: NumberBounds;
  /**
   * Checks a value and returns the one to use. Throws EVENKEEL_OPTION if the value does not fit.
   * @param name The name of the option for the error message, such as `pool.connectTimeoutMs`.
   */
  readonly check: (name: string, value: unknown) => T;
}

/**
 * A group of options, with their default values and checks. `Settings` is the type of the options after default values were filled in;
 * see `Complete` and `Filled`.
 */
export interface OptionTable<Settings> {
  /** The options by name. Another table can take some of them over. */
  readonly options: { readonly [Name in keyof Settings]-?: Option<Settings[Name]> };
  /** The names of the options in the order in which they were defined. */
  readonly names: readonly (keyof Settings & string)[];
  /** The default values of all options; undefined for those that have none. The object is frozen. */
  readonly defaults: Settings;
  /** Checks options and fills in default values. Throws EVENKEEL_OPTION for an invalid value or an unknown name. */
  resolve(values: unknown): Settings;
  /** Resolves options like `resolve`, from an object that also has others, which are ignored. @param prefix Precedes names in errors. */
  resolveOwn(values: object, prefix?: string): Settings;
}

/**
 * Creates a table of options.
 *
 * @param path The name of the group for error messages, such as `pool` in `pool.connectTimeoutMs`. The name `options` is left out of error
 * messages.
 */
export function optionTable<Settings extends object>(
  path: string,
  // `NoInfer` makes the caller name the type of the settings, so that an option that is not part of it is a compile error.
  options: NoInfer<OptionTable<Settings>['options']>,
): OptionTable<Settings> {
  const entries = Object.entries<Option<unknown>>(options);
  const names = Object.keys(options) as (keyof Settings & string)[];
  const prefix = path === 'options' ? '' : `${path}.`;
  const defaults = Object.fromEntries(entries.map(([name, option]) => [name, option.default])) as Settings;
  const resolveOwn = (values: object, ownPrefix: string = prefix): Settings => {
    const own = ownProperties(values) as Readonly<Record<string, unknown>>;
    const resolved = entries.map(([name, option]) => {
      const value = own[name];
      const isRequired = Object.hasOwn(option, 'isRequired') && option.isRequired === true;
      if (value === undefined && !isRequired) return [name, option.default];
      return [name, option.check(`${ownPrefix}${name}`, value)];
    });
    return Object.fromEntries(resolved) as Settings;
  };
  return {
    options,
    names,
    defaults: Object.freeze(defaults),
    resolve(values = {}) {
      checkKeys(path, values, names);
      return resolveOwn(values as object);
    },
    resolveOwn,
  };
}

/** An option that takes a number within bounds. Without bounds, any finite number is allowed. */
export const numberOption = (fallback: number, bounds: NumberBounds = {}): Option<number> => ({
  default: fallback,
  bounds,
  check: (name, value) => checkNumber(name, value, fallback, bounds),
});

/** An option that takes true or false. Any other value, even 0 or `'true'`, throws EVENKEEL_OPTION. */
export const booleanOption = (fallback: boolean): Option<boolean> => ({
  default: fallback,
  check: (name, value) => checkBoolean(name, value, fallback),
});

/** An option that takes a function and may be left out. */
export const functionOption = <T>(): Option<T | undefined> => ({
  default: undefined,
  check(name, value) {
    checkFunction(name, value);
    return value as T;
  },
});

/** An option that takes true or false and has no default value. */
export const optionalBoolean: Option<boolean | undefined> = {
  default: undefined,
  check: (name, value) => checkBoolean(name, value, false),
};

/**
 * An option with a check of its own, which returns the value to use, or throws an error made by `optionError`. The check is not called if
 * the option is left out.
 */
export const checkedOption = <T>(fallback: T, check: (name: string, value: unknown) => T): Option<T> => ({
  default: fallback,
  check,
});

/** An option that takes a number within bounds and has no default value. */
export const optionalNumber = (bounds: NumberBounds): Option<number | undefined> => ({
  default: undefined,
  bounds,
  check: (name, value) => checkNumber(name, value, 0, bounds),
});

/** An option that takes a non-empty string and may be left out. */
export const optionalString: Option<string | undefined> = checkedOption<string | undefined>(undefined, checkString);

/** An option that takes one of the `choices`. The error message lists them all. */
export const choiceOption = <const T extends string | number, F extends T | undefined>(
  fallback: F,
  choices: readonly T[],
): Option<T | F> => ({
  default: fallback,
  check(name, value) {
    if (choices.includes(value as T)) return value as T;
    const shown = choices.map((choice) => (typeof choice === 'string' ? `'${choice}'` : choice));
    throw optionError(name, `${shown.slice(0, -1).join(', ')} or ${shown.at(-1)}`, value);
  },
});

/** An option that must be given. Its `check` is called for undefined, too, and must throw for it. */
export const requiredOption = <T>(check: (name: string, value: unknown) => T): Option<T> => ({
  // This value is never used, because `check` throws if the option is missing.
  default: undefined as T,
  isRequired: true,
  check,
});

/** An option that may be left out, and that is checked by the code that uses it. */
export const anyOption = <T>(): Option<T | undefined> =>
  checkedOption<T | undefined>(undefined, (_name, value) => value as T);

/** An option that takes a clock, so that tests can control the time. The default value is the clock of the machine. */
export const clockOption: Option<Clock> = checkedOption(systemClock, (name, value) => {
  if (typeof value !== 'object' || value === null) throw optionError(name, 'a clock with now, timer and defer', value);
  const clock = value as Clock;
  checkFunction(`${name}.now`, clock.now);
  checkFunction(`${name}.timer`, clock.timer);
  checkFunction(`${name}.defer`, clock.defer);
  return clock;
});

/** An option that takes a source of random numbers, so that tests can repeat them. The default value is a source with a random seed. */
export const rngOption: Option<Rng> = checkedOption(systemRng, (name, value) => {
  checkFunction(`${name}.next`, (value as Rng | null)?.next);
  return value as Rng;
});
