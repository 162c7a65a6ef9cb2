import { describe, expect, it } from 'vitest';
import { isEvenkeelError } from '../../../src/errors.js';
import {
  checkBoolean,
  checkFunction,
  checkKeys,
  checkNumber,
  checkPort,
  checkString,
  type NumberBounds,
  quoted,
} from '../../../src/runtime/check.js';

/** The message of the EVENKEEL_OPTION error `check` throws; undefined when it throws none. */
function complaint(check: () => unknown): string | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    expect(error).toSatisfy((thrown) => isEvenkeelError(thrown, 'EVENKEEL_OPTION'));
    return (error as Error).message;
  }
}

describe('option checks', () => {
  it.each([
    ['mysql://app:se/cr@et@db.shop:3306', 'mysql://…@db.shop:3306'],
    ['//app:secret@db', '//…@db'],
    ['app:secret@db:80', '…@db:80'],
    ['a@b', 'a@b'],
    ['db.shop:80', 'db.shop:80'],
  ])('show no user and password in a URL: %s', (given, shown) => {
    expect(complaint(() => checkPort('port', given))).toMatch(`got ${JSON.stringify(shown)}`);
  });

  it.each<[NumberBounds, unknown[], unknown[], string]>([
    [{}, [0, -1, 1.5], [Number.NaN, Infinity, -Infinity, '5', null, {}], 'a number'],
    [{ min: 1 }, [1, 2], [0.9, Infinity], 'a number of at least 1'],
    [{ max: 3 }, [3, -9], [3.1], 'a number of at most 3'],
    [{ min: 1, max: 3 }, [1, 3], [0, 4, Infinity], 'a number from 1 to 3'],
    [{ above: 0 }, [Number.MIN_VALUE, 7], [0, -1], 'a number above 0'],
    [{ min: 1, integer: true }, [1, 1e6], [1.5, Infinity], 'a whole number of at least 1'],
    [
      { min: 1, max: 9, infinite: true },
      [9, Infinity],
      [10, -Infinity, Number.NaN],
      'a number from 1 to 9 or Infinity',
    ],
    [{ min: 1, integer: true, infinite: true }, [Infinity], [1.5], 'a whole number of at least 1 or Infinity'],
  ])('accept numbers within %o', (bounds, good, bad, words) => {
    for (const value of good) expect(checkNumber('timeoutMs', value, 1, bounds)).toBe(value);
    for (const value of bad) expect(complaint(() => checkNumber('timeoutMs', value, 1, bounds))).toContain(words);
    expect(checkNumber('timeoutMs', undefined, 42, bounds)).toBe(42);
  });

  it('name the field, what was expected and what came', () => {
    expect(complaint(() => checkNumber('waitTimeoutMs', '5s', 1, { min: 0 }))).toBe(
      'waitTimeoutMs must be a number of at least 0, got "5s"',
    );
    expect(complaint(() => checkPort('port', 70_000))).toBe('port must be a port from 1 to 65535, got 70000');
    expect(complaint(() => checkString('host', ''))).toBe('host must be a non-empty string, got ""');
    expect(complaint(() => checkBoolean('waitForEndpoints', 1, false))).toBe(
      'waitForEndpoints must be true or false, got 1',
    );
    expect(complaint(() => checkFunction('picker', []))).toBe('picker must be a function, got an empty array');
    expect(complaint(() => checkFunction('picker', Symbol('s')))).toContain('Symbol(s)');
    expect(complaint(() => checkString('host', { a: 1 }))).toContain('an object');
    expect(complaint(() => checkNumber('n', 'x'.repeat(1_000), 1))?.length).toBeLessThan(140);
  });

  it('show no secret: neither in a URL, nor in an option whose name says that it holds one', () => {
    const shown = (value: string): string | undefined =>
      complaint(() => checkNumber('n', value, 1))?.slice('n must be a number, got '.length);
    expect(shown('https://user:hunter2@api:6443/x')).toBe('"https://…@api:6443/x"');
    expect(shown('https://hunter2@api')).toBe('"https://…@api"');
    expect(shown('user:hun@ter2@api')).toBe('"…@api"');
    expect(shown('https://api/x?token=hunter2')).toBe('"https://api/x?…"');
    expect(shown('https://api/#access_token=hunter2')).toBe('"https://api/#…"');
    expect(shown('Bearer hunter2')).toBe('"Bearer …"');
    expect(shown('-----BEGIN PRIVATE KEY-----\nhunter2')).toBe('"-----BEGIN …"');
    expect(shown('me@example.com')).toBe('"me@example.com"');
    expect(complaint(() => checkKeys('credentials', 'hunter2', []))).toBe(
      'credentials must be an object, got a string',
    );
    for (const name of ['credentials.token', 'tls.key', 'password', 'options.passphrase']) {
      expect(complaint(() => checkFunction(name, 'hunter2'))).toBe(`${name} must be a function, got a string`);
      expect(complaint(() => checkFunction(name, 12_345))).toBe(`${name} must be a function, got a number`);
    }
    expect(complaint(() => checkString('credentials.token', ''))).toContain('got ""');
  });

  it('scan a long text once, whatever is in it', () => {
    const text = ':'.repeat(5_000_000);
    for (const end of ['', '@', '@?', ':@:']) expect(quoted(text + end, 80).length).toBeLessThan(100);
    expect(quoted(`${' '.repeat(5_000_000)}//a:b@c`, 80).length).toBeLessThan(100);
    expect(quoted(`${'a+'.repeat(2_000_000)}@c`, 80).length).toBeLessThan(100);
  });

  it('know the names of options', () => {
    checkKeys('pool', { a: 1 }, ['a', 'b']);
    expect(complaint(() => checkKeys('pool', { c: 1 }, ['a', 'b']))).toBe('pool has no option "c"; it knows a, b');
    expect(complaint(() => checkKeys('pool', { maxAge: 1 }, ['minAgeMs', 'maxAgeMs']))).toBe(
      'pool has no option "maxAge" (did you mean "maxAgeMs"?); it knows minAgeMs, maxAgeMs',
    );
    expect(complaint(() => checkKeys('pool', { ['x'.repeat(1_000)]: 1 }, ['a']))?.length).toBeLessThan(140);
    for (const bad of [null, undefined, [], 'a', 5]) {
      expect(complaint(() => checkKeys('pool', bad, ['a']))).toContain('pool must be an object');
    }
  });

  it('accept ports and booleans', () => {
    for (const port of [1, 80, 65_535]) expect(checkPort('port', port)).toBe(port);
    for (const port of [0, 65_536, 1.5, '80', undefined])
      expect(complaint(() => checkPort('port', port))).toBeDefined();
    expect(checkBoolean('flag', undefined, true)).toBe(true);
    expect(checkBoolean('flag', false, true)).toBe(false);
  });
});
