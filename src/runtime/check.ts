import { EvenkeelError } from '../errors.js';
import { closestOf } from './did-you-mean.js';
import { ownProperties } from './own-properties.js';

/** The numbers that an option may take. */
export interface NumberBounds {
  readonly min?: number;
  /** The value must be above this bound; unlike with `min`, the bound itself is not allowed. */
  readonly above?: number;
  readonly max?: number;
  /** Whether only whole numbers are allowed. */
  readonly integer?: boolean;
  /** Whether Infinity is allowed, even if there is a `max`. */
  readonly infinite?: boolean;
}

/** Creates an EVENKEEL_OPTION error that names the option, what was expected, and what was passed. */
export function optionError(name: string, expected: string, value: unknown): EvenkeelError {
  return new EvenkeelError('EVENKEEL_OPTION', `${name} must be ${expected}, got ${describe(value, name)}`);
}

/** As `optionError`, for a value that may contain a secret: the message names only what kind of value it is. */
export function optionKindError(name: string, expected: string, value: unknown): EvenkeelError {
  return new EvenkeelError('EVENKEEL_OPTION', `${name} must be ${expected}, got ${kindOf(value)}`);
}

/** Returns `value`, or `fallback` when it is undefined. Throws EVENKEEL_OPTION outside the bounds. */
export function checkNumber(name: string, value: unknown, fallback: number, bounds: NumberBounds = {}): number {
  if (value === undefined) return fallback;
  if (typeof value !== 'number' || !isWithin(value, bounds)) throw optionError(name, describeBounds(bounds), value);
  return value;
}

/** Checks that a value is a TCP port. Throws EVENKEEL_OPTION. */
export function checkPort(name: string, value: unknown): number {
  const fits = typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= 65_535;
  if (!fits) throw optionError(name, 'a port from 1 to 65535', value);
  return value;
}

/** Checks that a value is a non-empty string. Throws EVENKEEL_OPTION. */
export function checkString(name: string, value: unknown): string {
  if (typeof value !== 'string' || value === '') throw optionError(name, 'a non-empty string', value);
  return value;
}

/** Returns `value`, or `fallback` when it is undefined. Throws EVENKEEL_OPTION unless it is a boolean. */
export function checkBoolean(name: string, value: unknown, fallback: boolean): boolean {
  if (value === undefined) return fallback;
  if (typeof value !== 'boolean') throw optionError(name, 'true or false', value);
  return value;
}

/** Throws EVENKEEL_OPTION unless `value` is a function. */
export function checkFunction(name: string, value: unknown): void {
  if (typeof value !== 'function') throw optionError(name, 'a function', value);
}

/** Throws EVENKEEL_OPTION unless `value` is an AbortSignal, or undefined. */
export function checkSignal(name: string, value: unknown): void {
  if (value === undefined) return;
  // Signals are not checked with `instanceof`: there are other implementations of AbortSignal.
  const { aborted, addEventListener } = (value ?? {}) as { aborted?: unknown; addEventListener?: unknown };
  if (typeof aborted === 'boolean' && typeof addEventListener === 'function') return;
  throw optionError(name, 'an AbortSignal', value);
}

/** Checks that a value is an object that only has the keys in `known`. Throws EVENKEEL_OPTION with the name of the first other key. */
export function checkKeys(name: string, value: unknown, known: readonly string[]): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw optionError(name, 'an object', value);
  for (const key of Object.keys(value)) {
    if (!known.includes(key)) throw unknownOption(name, key, known);
  }
}

/** Creates an EVENKEEL_OPTION error that names an unknown key, the key that was probably meant, and all known keys. */
export function unknownOption(name: string, key: string, known: readonly string[]): EvenkeelError {
  const meant = closestOf(key, known);
  const hint = meant === undefined ? '' : ` (did you mean "${meant}"?)`;
  const message = `${name} has no option ${quoted(key, 80)}${hint}; it knows ${known.join(', ')}`;
  return new EvenkeelError('EVENKEEL_OPTION', message);
}

/** Throws EVENKEEL_OPTION if options were passed to a function that takes none and would ignore them. */
export function checkNoOptions(name: string, args: readonly unknown[]): void {
  if (args.every((value) => value === undefined)) return;
  throw new EvenkeelError('EVENKEEL_OPTION', `${name}() takes no options, got ${describe(args[0])}`);
}

function isWithin(value: number, bounds: NumberBounds): boolean {
  const { min, above, max, integer, infinite } = ownProperties(bounds);
  if (value === Number.POSITIVE_INFINITY) return infinite === true;
  if (!Number.isFinite(value) || (integer && !Number.isInteger(value))) return false;
  return !(value < (min ?? value) || value <= (above ?? Number.NEGATIVE_INFINITY) || value > (max ?? value));
}

function describeBounds(bounds: NumberBounds): string {
  const { min, above, max, integer, infinite } = ownProperties(bounds);
  const kind = integer ? 'a whole number' : 'a number';
  const limits: string[] = [];
  if (above !== undefined) limits.push(`above ${above}`);
  if (min !== undefined) limits.push(max === undefined ? `of at least ${min}` : `from ${min} to ${max}`);
  else if (max !== undefined) limits.push(`of at most ${max}`);
  return `${[kind, ...limits].join(' ')}${infinite ? ' or Infinity' : ''}`;
}

/** Returns `String(value)`, or '' for a value that cannot be converted to text, such as an object without a prototype. */
export function textOf(value: unknown): string {
  try {
    return String(value);
  } catch {
    return '';
  }
}

/** Returns a string as error messages show it: in quotes, cut to a length, and without possible secrets. */
export function quoted(value: string, maxLength: number): string {
  const shown = withoutSecrets(value);
  return JSON.stringify(shown.length > maxLength ? `${shown.slice(0, maxLength)}…` : shown);
}

/**
 * Removes likely secrets from a text: the user and password in a URL, everything after its "?" or "#", and the content of an
 * Authorization header or a PEM file. It takes time in proportion to the length of the text, which may come from an attacker.
 */
export function withoutSecrets(text: string): string {
  const end = text.lastIndexOf('@');
  const scheme = /^\s*(?:[a-z][a-z0-9+.-]*:)?\/\//i.exec(text)?.[0] ?? '';
  const isUser = end >= scheme.length && (scheme !== '' || text.lastIndexOf(':', end) !== -1);
  const shown = isUser ? `${scheme}…${text.slice(end)}` : text;
  const [, known] = /^\s*(bearer |basic |-----BEGIN )/i.exec(shown) ?? [];
  if (known !== undefined) return `${known.trim()} …`;
  const extra = shown.search(/[?#]/);
  return extra === -1 || extra === shown.length - 1 ? shown : `${shown.slice(0, extra + 1)}…`;
}

/**
 * The options whose value is a secret, recognized by the last part of their name. Options with the name of a file are not among them.
 */
const secretName =
  /(credentials?|passw(or)?d\d?|passphrase|secret|token|auth|authorization|cookie|pfx|cert)$|(^|\.)key$/i;

function describe(value: unknown, name = ''): string {
  if (typeof value === 'string' || typeof value === 'number') {
    if (secretName.test(name)) return value === '' ? '""' : kindOf(value);
    return typeof value === 'string' ? quoted(value, 80) : String(value);
  }
  return kindOf(value);
}

function kindOf(value: unknown): string {
  if (typeof value === 'string' || typeof value === 'number') return `a ${typeof value}`;
  if (value instanceof Promise) return 'a promise';
  if (typeof value === 'object' && value !== null) return describeObject(value);
  if (typeof value === 'function') return value.name === '' ? 'a function' : `the function ${value.name}`;
  return String(value);
}

function describeObject(value: object): string {
  if (!Array.isArray(value)) return 'an object';
  return value.length === 0 ? 'an empty array' : 'an array';
}
