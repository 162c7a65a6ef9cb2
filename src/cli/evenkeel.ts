#!/usr/bin/env node
import { main } from './main.js';

const stopped = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopped.abort());
// A program that reads the output, such as `head`, may close it early. That ends the command, and is not an error.
process.stdout.on('error', () => stopped.abort());

process.exitCode = await main(process.argv.slice(2), {
  write: (text) => void process.stdout.write(text),
  writeError: (text) => void process.stderr.write(text),
  signal: stopped.signal,
});
