import { afterEach } from 'vitest';

/** A list of what a test opens. After each test everything in it is closed, the newest first. */
export function closedAfterEach(): AsyncDisposable[] {
  const open: AsyncDisposable[] = [];
  afterEach(async () => {
    for (const one of open.splice(0).reverse()) await one[Symbol.asyncDispose]();
  });
  return open;
}

/** A list of functions that close what a test opens. After each test all of them are called, the newest first. */
export function calledAfterEach(): (() => unknown)[] {
  const closing: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
  return closing;
}
