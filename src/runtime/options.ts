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
import { type Rng, systemRng } from './rng.js';

/** One option: its default, and the check of a value, which throws EVENKEEL_OPTION. */
export interface Option<T> {
  /** The value where the option is left out. */
  readonly default: T;
  /** Whether the option must be set: `check` is then called for undefined too. */
  readonly isRequired?: boolean;
  /** What numbers the option takes; for the reference. */
  readonly bounds?: NumberBounds;
  /**
   * Returns the value to use. Throws EVENKEEL_OPTION for any that does not fit.
   * @param name Of the option, with its path, for the error.
   */
  readonly check: (name: string, value: unknown) => T;
}

/** What a group of options is, said once. `Settings` are the options after defaults were filled in: see `Complete` and `Filled`. */
export interface OptionTable<Settings> {
  /** Each option by name: to build another table that has some of them too. */
  readonly options: { readonly [Name in keyof Settings]-?: Option<Settings[Name]> };
  /** The names in the order of `options`: to tell a group's own options from others in one object. */
  readonly names: readonly (keyof Settings & string)[];
  /** Every option at its default, frozen; undefined for those that must be given. */
  readonly defaults: Settings;
  /** Fills in defaults. Throws EVENKEEL_OPTION for a wrong value or an unknown name. */
  resolve(values: unknown): Settings;
  /** Resolves options like `resolve`, from an object that also has others, which are ignored. @param prefix Precedes names in errors. */
  resolveOwn(values: object, prefix?: string): Settings;
}

/**
 * Makes a table of options.
 *
 * @param path Of the group, for errors: `pool` for `pool.connectTimeoutMs`. Options that are the caller's own argument are the group `options`,
 * and are named without it.
 */
export function optionTable<Settings extends object>(
  path: string,
  // The type of the settings is named by the caller: options that are not among them are errors.
  options: NoInfer<OptionTable<Settings>['options']>,
): OptionTable<Settings> {
  const entries = Object.entries<Option<unknown>>(options);
  const names = Object.keys(options) as (keyof Settings & string)[];
  const prefix = path === 'options' ? '' : `${path}.`;
  const defaults = Object.fromEntries(entries.map(([name, option]) => [name, option.default])) as Settings;
  const resolveOwn = (values: object, ownPrefix: string = prefix): Settings => {
    const resolved = entries.map(([name, option]) => {
      const value = (values as Readonly<Record<string, unknown>>)[name];
      if (value === undefined && option.isRequired !== true) return [name, option.default];
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

/** A number within bounds, `fallback` where it is left out. Without bounds any finite number. */
export const numberOption = (fallback: number, bounds: NumberBounds = {}): Option<number> => ({
  default: fallback,
  bounds,
  check: (name, value) => checkNumber(name, value, fallback, bounds),
});

/** True or false, `fallback` where it is left out. Nothing else counts as either: a 0 or a `'true'` throws EVENKEEL_OPTION. */
export const booleanOption = (fallback: boolean): Option<boolean> => ({
  default: fallback,
  check: (name, value) => checkBoolean(name, value, fallback),
});

/** A function that may be left out; only that it is one is checked, not its parameters. */
export const functionOption = <T>(): Option<T | undefined> => ({
  default: undefined,
  check(name, value) {
    checkFunction(name, value);
    return value as T;
  },
});

/** An option that takes true or false, where leaving it out means neither. */
export const optionalBoolean: Option<boolean | undefined> = {
  default: undefined,
  check: (name, value) => checkBoolean(name, value, false),
};

/** An option with a check of its own, which returns the value to use or throws (`optionError`). It is not called where the option is left out. */
export const checkedOption = <T>(fallback: T, check: (name: string, value: unknown) => T): Option<T> => ({
  default: fallback,
  check,
});

/** A number within bounds that may be left out: there is no default, and undefined means what its reader says. */
export const optionalNumber = (bounds: NumberBounds): Option<number | undefined> => ({
  default: undefined,
  bounds,
  check: (name, value) => checkNumber(name, value, 0, bounds),
});

/** An option that takes a non-empty string and may be left out. */
export const optionalString: Option<string | undefined> = checkedOption<string | undefined>(undefined, checkString);

/** One of `choices`, compared as it is, `fallback` where it is left out. The error names them all. */
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

/** An option that must be set: its `check` refuses undefined. */
export const requiredOption = <T>(check: (name: string, value: unknown) => T): Option<T> => ({
  // The default of a required option is never used: `check` is called first, and throws.
  default: undefined as T,
  isRequired: true,
  check,
});

/** An option that may be left out, and whose value is checked where it is used. */
export const anyOption = <T>(): Option<T | undefined> =>
  checkedOption<T | undefined>(undefined, (_name, value) => value as T);

/** The clock of a balancer or a server: the machine's, unless a test passes its own. */
export const clockOption: Option<Clock> = checkedOption(systemClock, (name, value) => {
  if (typeof value !== 'object' || value === null) throw optionError(name, 'a clock with now, timer and defer', value);
  const clock = value as Clock;
  checkFunction(`${name}.now`, clock.now);
  checkFunction(`${name}.timer`, clock.timer);
  checkFunction(`${name}.defer`, clock.defer);
  return clock;
});

/** Where random numbers come from: the machine's, unless a test passes a seeded one. */
export const rngOption: Option<Rng> = checkedOption(systemRng, (name, value) => {
  checkFunction(`${name}.next`, (value as Rng | null)?.next);
  return value as Rng;
});
