import { hash, type PickerFactory } from '../../index.js';
import { checkKeys, checkNumber, checkString, hash32 } from '../kit/index.js';

/** Reads a request header by its lower-case name; a list if it is repeated. */
export type RequestHeader<R> = (request: R, name: string) => unknown;

/** A `key` for hash pickers: the value of a request header; undefined if there is none. Throws EVENKEEL_OPTION. */
export function keyOfHeader<R>(name: string, header: RequestHeader<R>): (request: R) => string | undefined {
  const wanted = checkString('headerKey()', name).toLowerCase();
  return (request) => headerText(header(request, wanted), ', ');
}

/** The same for a cookie. Its name is case-sensitive; its value is used unchanged, without surrounding quotes. */
export function keyOfCookie<R>(name: string, header: RequestHeader<R>): (request: R) => string | undefined {
  const wanted = checkString('cookieKey()', name);
  return (request) => {
    const cookies = headerText(header(request, 'cookie'), '; ');
    return cookies === undefined ? undefined : cookieOf(wanted, cookies);
  };
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

/** Options of `promptKey`. */
export interface PromptKeyOptions {
  /** How many characters of the first user message, or of a plain prompt, make the key. @defaultValue 256 */
  readonly chars?: number | undefined;
  /** Larger bodies are not read, in bytes: parsing one blocks the event loop by some ms per MiB. @defaultValue 4194304 (4 MiB) */
  readonly maxBytes?: number | undefined;
}

/** Options of `prefixKey`. */
export interface PrefixKeyOptions extends PromptKeyOptions {
  /** A header that names the conversation; it decides where there is one. @defaultValue none */
  readonly header?: string | undefined;
}

export const promptDefaults: { readonly chars: number; readonly maxBytes: number } = Object.freeze({
  chars: 256,
  maxBytes: 4 * 1024 * 1024,
});

/** How many times its share of the calls in flight a pod may have before calls for it go to the next one. */
const MAX_LOAD_RATIO = 1.25;
/** A server of a model works on many requests at once: with fewer than these none is busy. */
const MIN_IN_FLIGHT = 8;

/** A function of a request that gives its key, and the picker it is meant for. */
export interface PrefixKey<R> {
  (request: R): string | undefined;
  readonly picker: PickerFactory;
}

/**
 * The key of a prompt: the same for all requests of a conversation, and for prompts that begin alike. `undefined` for what is no
 * JSON with a prompt in a known form. The key is a hash: it tells nothing of the prompt.
 *
 * In this order: `prompt_cache_key`; `conversation`; the first user message with the system prompt before it (`messages`, `input`,
 * `system`, `instructions`); `prompt`; `input` as a text. `model` is part of each.
 *
 * @param body A JSON text, its bytes, or the object it was made of.
 * @throws EVENKEEL_OPTION for invalid options.
 */
export function promptKey(body: unknown, options: PromptKeyOptions = {}): string | undefined {
  checkKeys('promptKey', options, ['chars', 'maxBytes']);
  const { chars, maxBytes } = limitsOf('promptKey', options);
  return keyOf(body, chars, maxBytes);
}

/** The same of a request, of which `header` and `body` tell. Throws EVENKEEL_OPTION. */
export function prefixKeyOf<R>(
  options: PrefixKeyOptions,
  header: RequestHeader<R>,
  body: (request: R) => unknown,
): PrefixKey<R> {
  checkKeys('prefixKey', options, ['chars', 'maxBytes', 'header']);
  const { chars, maxBytes } = limitsOf('prefixKey', options);
  const named = options.header === undefined ? undefined : keyOfHeader(checkString('header', options.header), header);
  return Object.assign((request: R) => named?.(request) || keyOf(body(request), chars, maxBytes), {
    picker: hash({ maxLoadRatio: MAX_LOAD_RATIO, minInFlight: MIN_IN_FLIGHT }),
  });
}

/** The picker a key is meant for, if it names one. */
export function pickerOf(key: unknown): PickerFactory | undefined {
  return typeof key === 'function' ? (key as Partial<PrefixKey<never>>).picker : undefined;
}

function limitsOf(name: string, options: PromptKeyOptions): { readonly chars: number; readonly maxBytes: number } {
  const count = { min: 1, max: 2 ** 30, integer: true };
  return {
    chars: checkNumber(`${name}.chars`, options.chars, promptDefaults.chars, count),
    maxBytes: checkNumber(`${name}.maxBytes`, options.maxBytes, promptDefaults.maxBytes, count),
  };
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
    // An object that is no JSON (a cycle, a bigint): a key is not worth failing a request for.
    return undefined;
  }
  // 64 bits: two of a million conversations share a key with a chance of one in 30 million.
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
  // A quick look before a parse: forms and texts are no prompts.
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

/** The messages up to the first of a user, which a conversation keeps however long it gets. */
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
