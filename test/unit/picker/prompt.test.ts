import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { createAgent } from '../../../src/adapter/node-http/index.js';
import { prefixKey, promptKey } from '../../../src/picker/request-key.js';

const chat = (...messages: readonly (readonly [string, unknown])[]) => ({
  model: 'llama',
  messages: messages.map(([role, content]) => ({ role, content })),
});
const opening = chat(['system', 'You are terse.'], ['user', 'How high is the Eiger?']);

describe('the key of a prompt', () => {
  it('stays the same while a conversation goes on', () => {
    const later = chat(
      ['system', 'You are terse.'],
      ['user', 'How high is the Eiger?'],
      ['assistant', '3967 m'],
      ['user', 'And the Jungfrau?'],
    );
    expect(promptKey(opening)).toMatch(/^[0-9a-f]{9,16}$/);
    expect(promptKey(later)).toBe(promptKey(opening));
    expect(promptKey(JSON.stringify(later))).toBe(promptKey(opening));
    expect(promptKey(Buffer.from(` \n${JSON.stringify(later)}`))).toBe(promptKey(opening));
    const bytes = new TextEncoder().encode(`##${JSON.stringify(later)}##`);
    expect(promptKey(bytes.subarray(2, -2))).toBe(promptKey(opening));
    expect(promptKey(bytes.slice(2, -2).buffer)).toBe(promptKey(opening));
  });

  it('differs for another model, system prompt or first question', () => {
    const keys = [
      opening,
      { ...opening, model: 'qwen' },
      chat(['system', 'You are verbose.'], ['user', 'How high is the Eiger?']),
      chat(['system', 'You are terse.'], ['user', 'How high is the Mönch?']),
      chat(['user', 'How high is the Eiger?']),
    ].map((body) => promptKey(body));
    expect(new Set(keys).size).toBe(5);
  });

  it('depends on the first characters of a question, and on the whole system prompt before it', () => {
    const long = 'x'.repeat(300);
    const asked = (end: string, chars?: number) =>
      promptKey(chat(['system', long], ['user', `${long}${end}`]), { chars });
    expect(asked('a')).toBe(asked('b'));
    expect(asked('a', 301)).not.toBe(asked('b', 301));
    expect(promptKey(chat(['system', `${long}a`], ['user', 'hi']))).not.toBe(
      promptKey(chat(['system', `${long}b`], ['user', 'hi'])),
    );
    expect(promptKey({ prompt: `${long}a` })).toBe(promptKey({ prompt: `${long}b` }));
  });

  it.each<[string, object, object]>([
    ['completions', { prompt: 'Once' }, { prompt: 'Twice' }],
    ['completions of tokens', { prompt: [1, 2] }, { prompt: [1, 3] }],
    ['responses', { instructions: 'a', input: 'b' }, { instructions: 'a', input: 'c' }],
    ['responses of messages', { input: [{ role: 'user', content: 'b' }] }, { input: [{ role: 'user', content: 'c' }] }],
    ['responses in a conversation', { conversation: 'c1', input: 'x' }, { conversation: { id: 'c2' }, input: 'x' }],
    ['a system prompt of its own', { system: 'a', messages: [{}] }, { system: 'b', messages: [{}] }],
    ['parts', chat(['user', [{ type: 'text', text: 'a' }]]), chat(['user', [{ type: 'text', text: 'b' }]])],
    ['a key of the caller', { prompt_cache_key: 'a', ...opening }, { prompt_cache_key: 'b', ...opening }],
  ])('is found for %s', (_name, one, other) => {
    expect(promptKey(one)).toBeDefined();
    expect(promptKey(one)).toBe(promptKey(JSON.stringify(one)));
    expect(promptKey(other)).not.toBe(promptKey(one));
  });

  it('is the same for a conversation by its id and by an object with it', () => {
    expect(promptKey({ conversation: 'c1' })).toBe(promptKey({ conversation: { id: 'c1' }, input: 'x' }));
  });

  it.each([
    undefined,
    null,
    '',
    'text',
    '{',
    '{"prompt":',
    'null',
    '[]',
    '[1]',
    '{}',
    '{"messages":[]}',
    '{"messages":7}',
    '"x"',
    7,
    Buffer.from('a=b'),
    Readable.from(['{"prompt":"x"}']),
    new FormData(),
    new URLSearchParams('prompt=x'),
    new Map(),
    (async function* () {})(),
  ])('does not exist for %s', (body) => {
    expect(promptKey(body)).toBeUndefined();
  });

  it('does not exist for text that is not JSON, or too large', () => {
    const cycle: Record<string, unknown> = { messages: [{ role: 'user', content: {} }] };
    (cycle.messages as { content: object }[])[0] = { content: cycle };
    expect(promptKey(cycle)).toBeUndefined();
    const text = JSON.stringify(opening);
    expect(promptKey(text, { maxBytes: text.length })).toBeDefined();
    expect(promptKey(text, { maxBytes: text.length - 1 })).toBeUndefined();
    expect(promptKey(Buffer.from(text), { maxBytes: text.length - 1 })).toBeUndefined();
  });

  it('does not reveal the prompt', () => {
    expect(promptKey({ prompt: 'secret' })).not.toContain('secret');
    expect(promptKey({ prompt_cache_key: 'secret' })).not.toContain('secret');
  });
});

describe('prefixKey', () => {
  const request = (body: unknown, headers?: unknown): never => ({ path: '/', method: 'POST', body, headers }) as never;

  it('is the header, if there is one, and otherwise comes from the body', () => {
    const key = prefixKey({ header: 'X-Conversation' });
    expect(key(request('{"prompt":"x"}', { 'x-conversation': 'c1' }))).toBe('c1');
    expect(key(request(JSON.stringify(opening), { 'x-conversation': '' }))).toBe(promptKey(opening));
    expect(key(request(JSON.stringify(opening)))).toBe(promptKey(opening));
    expect(prefixKey()(request(JSON.stringify(opening), { 'x-conversation': 'c1' }))).toBe(promptKey(opening));
  });

  it('never reads a stream or an iterator', async () => {
    let pulled = false;
    const parts = (async function* () {
      pulled = true;
      yield '{"prompt":"x"}';
    })();
    const stream = new Readable({
      read() {
        pulled = true;
      },
    });
    for (const body of [parts, stream]) expect(prefixKey()(request(body))).toBeUndefined();
    expect(pulled).toBe(false);
  });

  it('needs a header over node:http, where the body is not known yet', () => {
    const request = { getHeader: (name: string) => (name === 'x-conversation' ? 'c1' : undefined) };
    expect(prefixKey({ header: 'X-Conversation' })(request as never)).toBe('c1');
    expect(prefixKey({ header: 'x-other' })(request as never)).toBeUndefined();
    // Without a header there is nothing to read: node:http asks for a connection before there is a body.
    expect(() => createAgent('http://vllm.models:8000', { key: prefixKey() })).toThrowError(
      expect.objectContaining({ code: 'EVENKEEL_OPTION', message: expect.stringContaining('prefixKey({ header })') }),
    );
  });

  it.each([{ chars: 0 }, { chars: 1.5 }, { maxBytes: -1 }, { header: '' }, { header: 7 }, { prefix: 1 }])(
    'refuses %j',
    (options) => {
      expect(() => prefixKey(options as never)).toThrowError(expect.objectContaining({ code: 'EVENKEEL_OPTION' }));
    },
  );
});
