// @ts-check
/** What an application writes: a `fetch` that keeps a conversation on the pod that has it cached. `node examples/llm/demo.js` shows what it saves. */
import { prefixKey } from 'evenkeel';
import { createFetch } from 'evenkeel/undici';

/** @param {import('evenkeel/undici').DispatcherOptions} [options] none in a pod */
export const createLlm = (options) => createFetch('http://vllm.models:8000', { key: prefixKey(), ...options });
