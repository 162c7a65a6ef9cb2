// @ts-check
/**
 * A hundred conversations with eight pods that serve a language model and cache twelve conversations each. With balancing by load
 * alone, a turn rarely finds its conversation cached; with `prefixKey()` most do.
 *
 *   node examples/llm/demo.js
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { staticEndpoints } from 'evenkeel';
import { createFetch } from 'evenkeel/undici';
import { createLlm } from './main.js';

const PODS = 8;
const CONVERSATIONS = 100;
const PER_SECOND = 60;
const SECONDS = 10;

/**
 * A pod's response.
 *
 * @typedef {{ choices: [{ message: { role: string, content: string } }], usage: { prompt_tokens_details: { cached_tokens: number } } }} Completion
 */

/** @param {typeof createLlm} create */
async function play(create) {
  const pods = Array.from({ length: PODS }, () => fork(new URL('pod.js', import.meta.url)));
  const ports = await Promise.all(pods.map(async (pod) => (await once(pod, 'message'))[0].port));
  const resolver = staticEndpoints(ports.map((port) => ({ address: '127.0.0.1', port })));
  const llm = create({ resolver });
  const system = { role: 'system', content: 'You are terse.' };
  const conversations = Array.from({ length: CONVERSATIONS }, (_, index) => [
    system,
    { role: 'user', content: `Question ${index}: how high is that mountain?` },
  ]);
  let hits = 0;
  /** @type {number[]} */
  const times = [];
  const ask = async (/** @type {boolean} */ isCounted) => {
    const messages = conversations[Math.floor(Math.random() * CONVERSATIONS)] ?? [];
    const beganMs = performance.now();
    const response = await llm('/v1/chat/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'llama', messages }),
    });
    const { choices, usage } = /** @type {Completion} */ (await response.json());
    // The conversation continues.
    messages.push(choices[0].message, { role: 'user', content: 'And the next one?' });
    if (!isCounted) return;
    times.push(performance.now() - beganMs);
    if (usage.prompt_tokens_details.cached_tokens > 0) hits++;
  };
  // At random times, without waiting for answers; the first third fills the caches.
  const total = PER_SECOND * SECONDS;
  const running = [];
  for (let request = 0; request < total; request++) {
    running.push(ask(request >= total / 3));
    await new Promise((resolve) => setTimeout(resolve, (-Math.log(1 - Math.random()) / PER_SECOND) * 1_000));
  }
  await Promise.all(running);
  await llm.close();
  for (const pod of pods) pod.disconnect();
  times.sort((a, b) => a - b);
  const at = (/** @type {number} */ share) => times[Math.floor(share * times.length)]?.toFixed(0);
  return `${((100 * hits) / times.length).toFixed(0)} % cached, answered after ${at(0.5)} ms (median), ${at(0.95)} ms (95 %)`;
}

console.log('by load alone:   ', await play((options) => createFetch('http://vllm.models:8000', options)));
console.log('with prefixKey():', await play(createLlm));
