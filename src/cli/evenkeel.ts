#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { asError, isEvenkeelError } from '../errors.js';
import { help, parseCommandLine } from './command-line.js';
import { doctor } from './doctor.js';
import { terminalText } from './terminal-text.js';

// The exit codes below are those of sysexits(3), because 1 and 2 describe the Service.
const WRONG_USAGE = 64;
const OWN_FAULT = 70;

const stopped = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopped.abort());
// A program that reads the output, such as `head`, may close it early. That ends the command, and is not an error.
process.stdout.on('error', () => stopped.abort());

process.exitCode = await main(process.argv.slice(2));

async function main(args: readonly string[]): Promise<number> {
  try {
    const command = parseCommandLine(args);
    const write = (text: string): void => {
      process.stdout.write(terminalText(text));
    };
    switch (command.name) {
      case 'help':
        write(help);
        return 0;
      case 'version':
        write(`${JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')).version}\n`);
        return 0;
      case 'doctor':
        return await doctor(command, { write, signal: stopped.signal });
    }
  } catch (error) {
    if (!isEvenkeelError(error, 'EVENKEEL_OPTION')) {
      writeError(`evenkeel failed: ${asError(error).stack}\n`);
      return OWN_FAULT;
    }
    writeError(`evenkeel: ${error.message}\ntry evenkeel --help\n`);
    return WRONG_USAGE;
  }
}

function writeError(text: string): void {
  process.stderr.write(terminalText(text));
}
