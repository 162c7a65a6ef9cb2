import { request } from 'node:http';
import { Readable } from 'node:stream';
import { prefixKey, promptKey, staticEndpoints } from 'evenkeel';
import * as nodeHttp from 'evenkeel/node-http';
import { createDispatcher, createFetch } from 'evenkeel/undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import { Pods } from '../../support/pods/pods.js';

const origin = 'http://vllm.models:8000';
const conversations = Array.from({ length: 20 }, (_, index) => ({
  model: 'llama',
  messages: [{ role: 'user', content: `Question ${index}` }],
}));

let pods: Pods;
beforeAll(async () => {
  pods = await Pods.start(3);
});
afterAll(() => pods[Symbol.asyncDispose]());
const resolver = () => staticEndpoints(pods.endpoints);

describe('prompts with the same beginning', () => {
  it('go to one pod, however they are sent, and arrive unchanged', async () => {
    const options = { resolver: resolver(), key: prefixKey({ header: 'x-conversation' }) };
    await using llm = createFetch(origin, options);
    await using agent = nodeHttp.createAgent(origin, {
      resolver: resolver(),
      key: prefixKey({ header: 'x-conversation' }),
    });
    await Promise.all([connected(llm.balancer, 3), connected(agent.balancer, 3)]);
    const used = new Set<unknown>();
    for (const conversation of conversations) {
      const text = JSON.stringify(conversation);
      const where: unknown[] = [];
      for (const body of [text, Buffer.from(text), new TextEncoder().encode(text)]) {
        const fetched = await llm('/echo', { method: 'POST', body });
        expect(await fetched.text()).toBe(text);
        where.push(fetched.headers.get('x-pod'));
      }
      for (const body of [text, Buffer.from(text)]) {
        const requested = await llm.dispatcher.request({ path: '/echo', method: 'POST', body });
        expect(await requested.body.text()).toBe(text);
        where.push(requested.headers['x-pod']);
      }
      // A stream cannot be looked at; its header can. So it is for node:http.
      const headers = { 'x-conversation': promptKey(text) as string };
      const streamed = await llm('/echo', {
        method: 'POST',
        headers,
        body: Readable.toWeb(Readable.from([text])) as ReadableStream,
        duplex: 'half',
      } as RequestInit);
      expect(await streamed.text()).toBe(text);
      where.push(streamed.headers.get('x-pod'));
      where.push(
        await new Promise((resolve, reject) => {
          const asked = request(`${origin}/echo`, { agent, method: 'POST', headers }, (response) => {
            response.resume().on('end', () => resolve(response.headers['x-pod']));
          });
          asked.on('error', reject).end(text);
        }),
      );
      expect(new Set(where).size).toBe(1);
      used.add(where[0]);
    }
    expect(used.size).toBe(3);
  });

  it('are not read from streams and iterators, which arrive whole and are spread like requests without a key', async () => {
    await using llm = createDispatcher(origin, { resolver: resolver(), key: prefixKey() });
    await connected(llm.balancer, 3);
    const text = JSON.stringify(conversations[0]);
    const used = new Set<unknown>();
    for (let time = 0; time < 30; time++) {
      const body = time % 2 === 0 ? Readable.from([text]) : (Readable.from([text]) as AsyncIterable<string>);
      const { body: answer, headers } = await llm.request({ path: '/echo', method: 'POST', body: body as Readable });
      expect(await answer.text()).toBe(text);
      used.add(headers['x-pod']);
    }
    expect(used.size).toBe(3);
  });

  it('have no key any more once a redirect has dropped the body', async () => {
    const seen: unknown[] = [];
    await using llm = createFetch(origin, {
      resolver: resolver(),
      key: ({ body }) => {
        seen.push(body);
        return undefined;
      },
    });
    await (await llm(`/redirect?to=${encodeURIComponent(`${origin}/echo`)}`, { method: 'POST', body: 'x=1' })).text();
    expect(seen).toEqual(['x=1', null]);
  });
});

describe('a picker beside prefixKey', () => {
  it('is used instead of the default one for keys', async () => {
    const picked: unknown[] = [];
    await using llm = createFetch(origin, {
      resolver: resolver(),
      key: prefixKey(),
      picker: (set) => ({
        pick: ({ key }) => {
          picked.push(key);
          return set.targets[0];
        },
      }),
    });
    await (await llm('/', { method: 'POST', body: JSON.stringify(conversations[0]) })).text();
    expect(picked.at(-1)).toBe(promptKey(conversations[0]));
  });
});
