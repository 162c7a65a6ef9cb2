// @ts-check
/**
 * A stand-in for a language model server such as vLLM: it answers `/v1/chat/completions`, computes one prompt after another, and
 * caches its latest conversations. There is no model: it only takes as much time as one.
 */
import { createServer } from 'node:http';
import { createBackend } from 'evenkeel/server';

const CACHED = 12;
const MISS_MS = 80;
const HIT_MS = 10;

/** Conversations whose beginning is cached, the latest last. @type {Set<string>} */
const cached = new Set();
/** When the waiting work will be done. */
let free = Promise.resolve();

/** @param {string} conversation */
async function compute(conversation) {
  const isHit = cached.delete(conversation);
  cached.add(conversation);
  const [oldest] = cached;
  if (cached.size > CACHED && oldest !== undefined) cached.delete(oldest);
  await new Promise((resolve) => setTimeout(resolve, isHit ? HIT_MS : MISS_MS));
  return isHit;
}

// vLLM reports num_requests_waiting on request; this pod reports like evenkeel's servers.
const backend = createBackend();
const server = createServer(
  backend.http(async (request, response) => {
    let body = '';
    for await (const part of request) body += part;
    const { messages } = JSON.parse(body);
    // Up to the first question: what all turns of a conversation share.
    const turn = free.then(() => compute(JSON.stringify(messages.slice(0, 2))));
    free = turn.then(() => {});
    const isHit = await turn;
    response.setHeader('content-type', 'application/json');
    response.end(
      JSON.stringify({
        choices: [{ message: { role: 'assistant', content: 'Well.' } }],
        // In vLLM's format with --enable-prompt-tokens-details.
        usage: { prompt_tokens: 1_000, prompt_tokens_details: { cached_tokens: isHit ? 900 : 0 } },
      }),
    );
  }),
);

server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (typeof address === 'object') process.send?.({ port: address?.port });
});
process.once('disconnect', () => process.exit(0));
