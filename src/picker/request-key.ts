import { checkString } from '../runtime/check.js';
import type { Complete, Filled } from '../runtime/complete.js';
import { hash32 } from '../runtime/hash.js';
import { numberOption, type OptionTable, optionalString, optionTable } from '../runtime/options.js';
import { hash } from './hash.js';
import type { PickerFactory } from './picker.js';

/** The part of an HTTP request that key functions read: of the options of an undici request, or of a `ClientRequest` of Node. */
export interface KeyedRequest {
  /** The headers in any form that undici accepts: an object, a flat list, or an iterable of pairs. */
  readonly headers?: unknown;
  /** Reads a header; present only on a `ClientRequest`. */
  getHeader?(name: string): unknown;
  /** The body of the request, if it is known when the pod is picked. With `node:http` it is not, because a connection is needed before. */
  readonly body?: unknown;
}

/**
 * Returns a key function for a header: requests whose header has the same value go to one pod. `key: headerKey('x-user')`, with `picker:
 * hash()`. Requests without the header go where `hash`'s `withoutKey` says. Throws EVENKEEL_OPTION for an invalid name.
 */
export function headerKey(name: string): (request: KeyedRequest) => string | undefined {
  const wanted = checkString('headerKey()', name).toLowerCase();
  return (request) => headerText(headerOf(request, wanted), ', ');
}

/**
 * Returns a key function for a cookie: requests whose cookie has the same value go to one pod. `key: cookieKey('session')`. The name is
 * case-sensitive; the value is used unchanged, without surrounding quotes. Throws EVENKEEL_OPTION for an invalid name.
 */
export function cookieKey(name: string): (request: KeyedRequest) => string | undefined {
  const wanted = checkString('cookieKey()', name);
  return (request) => {
    const cookies = headerText(headerOf(request, 'cookie'), '; ');
    return cookies === undefined ? undefined : cookieOf(wanted, cookies);
  };
}

/** The value of a header, whatever form the request's headers have; a list if the header is repeated. */
function headerOf(request: KeyedRequest, name: string): unknown {
  if (typeof request.getHeader === 'function') return request.getHeader(name);
  const { headers } = request;
  if (typeof headers !== 'object' || headers === null) return undefined;
  const found: unknown[] = [];
  for (const [key, value] of pairsOf(headers)) {
    if (String(key).toLowerCase() === name && value !== undefined && value !== null) found.push(value);
  }
  return found.length === 0 ? undefined : found.flat();
}

function* pairsOf(headers: object): Iterable<readonly [unknown, unknown]> {
  if (Array.isArray(headers)) {
    for (let index = 0; index + 1 < headers.length; index += 2) yield [headers[index], headers[index + 1]];
  } else if (Symbol.iterator in headers) yield* headers as Iterable<readonly [unknown, unknown]>;
  else yield* Object.entries(headers);
}

function cookieOf(name: string, cookies: string): string | undefined {
  for (const cookie of cookies.split(';')) {
    const equals = cookie.indexOf('=');
    if (equals === -1 || cookie.slice(0, equals).trim() !== name) continue;
    return cookie
      .slice(equals + 1)
      .trim()
      .replace(/^"(.*)"$/, '$1');
  }
  return undefined;
}

function headerText(value: unknown, separator: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  return Array.isArray(value) ? value.join(separator) : String(value);
}

/**
 * Options of `promptKey`: how much of a prompt makes the key, and which bodies are too large to read. Invalid options throw
 * EVENKEEL_OPTION.
 */
export interface PromptKeyOptions {
  /** How many characters of the first user message, or of a plain prompt, make the key. @defaultValue 256 */
  readonly chars?: number | undefined;
  /** Bodies larger than this are not read, in bytes: parsing one blocks the event loop by some ms per MiB. @defaultValue 4194304 (4 MiB) */
  readonly maxBytes?: number | undefined;
}

/** Options of `prefixKey`: those of `promptKey`, and a header that may carry the key. Invalid options throw EVENKEEL_OPTION. */
export interface PrefixKeyOptions extends PromptKeyOptions {
  /**
   * The name of a header that identifies the conversation; a request with this header gets its key from the header's value. @defaultValue
   * none
   */
  readonly header?: string | undefined;
}

const count = { min: 1, max: 2 ** 30, integer: true };

export const promptKeyTable: OptionTable<Complete<PromptKeyOptions>> = optionTable('promptKey', {
  chars: numberOption(256, count),
  maxBytes: numberOption(4 * 1024 * 1024, count),
});

export const prefixKeyTable: OptionTable<Filled<PrefixKeyOptions, 'header'>> = optionTable('prefixKey', {
  header: optionalString,
  ...promptKeyTable.options,
});

/** How many times its share of the calls in flight a pod may have before calls for its keys go to other pods. */
const MAX_LOAD_RATIO = 1.25;
/** A pod with fewer calls in flight than this is not busy, because servers of language models work on many requests at once. */
const MIN_IN_FLIGHT = 8;

/** A function that returns the key of a request, together with the picker that it is meant for. */
export interface PrefixKey {
  (request: KeyedRequest): string | undefined;
  /** The hash picker to pass as `picker`. It keeps each key on one endpoint while that endpoint is not too busy. */
  readonly picker: PickerFactory;
  /**
   * Whether the key may come from a header of the request. If not, it comes from the body, which `node:http` does not know yet when it asks
   * for a connection.
   */
  readonly readsHeader: boolean;
}

/**
 * Returns the key of a prompt, which is the same for all requests of a conversation, and for prompts that begin alike. Returns `undefined`
 * for a body that is no JSON with a prompt in a known form. The key is a hash that reveals nothing of the prompt.
 *
 * The key is made of the first of these that is present: `prompt_cache_key`; `conversation`; the first user message with the system prompt
 * before it (`messages`, `input`, `system`, `instructions`); `prompt`; `input` as a text. `model` is part of every key.
 *
 * @param body A JSON text, its bytes, or the object it was made of.
 * @throws EVENKEEL_OPTION for invalid options.
 */
export function promptKey(body: unknown, options: PromptKeyOptions = {}): string | undefined {
  const { chars, maxBytes } = promptKeyTable.resolve(options);
  return keyOf(body, chars, maxBytes);
}

/**
 * Returns a key function for servers of language models with prefix caches: requests of one conversation, or with prompts that begin alike,
 * go to one pod, which still has what it computed for them. A pod with more than 1.25 times its share of the calls in flight (of all
 * clients, where servers report them) passes calls on to another. With this key, the default picker is `hash({ maxLoadRatio: 1.25,
 * minInFlight: 8 })`.
 *
 * The key is the header's value, if one is named and the request has it; otherwise it is read from a JSON body (see `promptKey`) that is a
 * string, a Buffer or another view of bytes. Streams, iterators and forms are never read: such a request has no key unless its header has
 * one. `fetch` turns every body into an iterator; `createFetch` shows key functions the body as the application passed it. With node:http
 * the header must be named. Throws EVENKEEL_OPTION.
 *
 * @example createFetch('http://vllm.models:8000', { key: prefixKey({ header: 'x-conversation-id' }) })
 */
export function prefixKey(options: PrefixKeyOptions = {}): PrefixKey {
  const { header, chars, maxBytes } = prefixKeyTable.resolve(options);
  const named = header === undefined ? undefined : headerKey(header);
  return Object.assign((request: KeyedRequest) => named?.(request) || keyOf(request.body, chars, maxBytes), {
    picker: hash({ maxLoadRatio: MAX_LOAD_RATIO, minInFlight: MIN_IN_FLIGHT }),
    readsHeader: header !== undefined,
  });
}

/** The picker that a key function is meant for, if it names one. */
export function pickerOf(key: unknown): PickerFactory | undefined {
  return typeof key === 'function' ? (key as Partial<PrefixKey>).picker : undefined;
}

function keyOf(body: unknown, chars: number, maxBytes: number): string | undefined {
  const request = parsed(body, maxBytes);
  if (!isObject(request)) return undefined;
  let text: string;
  try {
    const prompt = promptOf(request, chars);
    if (prompt === undefined) return undefined;
    text = `${textOf(request.model)}\n${prompt}`;
  } catch {
    // The body is an object that cannot be written as JSON (a cycle, a bigint). The request then has no key, since that is better than to
    // fail.
    return undefined;
  }
  // The key has 64 bits: in a million conversations, the chance that two share a key is one in 30 million.
  return (hash32(text, 1) >>> 0).toString(16) + (hash32(text, 2) >>> 0).toString(16).padStart(8, '0');
}

function parsed(body: unknown, maxBytes: number): unknown {
  let text: string;
  if (typeof body === 'string') text = body;
  else if (ArrayBuffer.isView(body)) {
    if (body.byteLength > maxBytes) return undefined;
    text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
  } else if (body instanceof ArrayBuffer) {
    if (body.byteLength > maxBytes) return undefined;
    text = Buffer.from(body).toString();
  } else return isPlain(body) ? body : undefined;
  // A quick look at the body saves parsing forms and plain texts, which are no prompts.
  if (text.length > maxBytes || !/^\s*\{/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function promptOf(request: Readonly<Record<string, unknown>>, chars: number): string | undefined {
  const { prompt_cache_key: cacheKey, conversation, prompt } = request;
  if (typeof cacheKey === 'string' && cacheKey !== '') return `key ${cacheKey}`;
  const id = isObject(conversation) ? conversation.id : conversation;
  if (typeof id === 'string' && id !== '') return `conversation ${id}`;
  const messages = request.messages ?? request.input;
  if (Array.isArray(messages) && messages.length > 0) {
    return `${textOf(request.system ?? request.instructions)}\n${openingOf(messages, chars)}`;
  }
  const plain = prompt ?? request.input;
  if (plain === undefined || plain === null) return undefined;
  return `${textOf(request.system ?? request.instructions)}\n${textOf(plain).slice(0, chars)}`;
}

/** The messages of a conversation up to the first of the user, which stay the same however long the conversation gets. */
function openingOf(messages: readonly unknown[], chars: number): string {
  let opening = '';
  for (const message of messages) {
    const { role, content = message } = (isObject(message) ? message : {}) as { role?: unknown; content?: unknown };
    const isUser = role === 'user' || !isObject(message);
    const text = textOf(content);
    opening += `${textOf(role)}: ${isUser ? text.slice(0, chars) : text}\n`;
    if (isUser) break;
  }
  return opening;
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : JSON.stringify(value);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isPlain(value: unknown): boolean {
  if (!isObject(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
