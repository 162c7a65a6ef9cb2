import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BrowserContext, type BrowserContextOptions, chromium } from 'playwright-core';

interface SystemPackage {
  readonly name: string;
  readonly commands: readonly string[];
}

interface SystemPackages {
  readonly systemPackages: readonly SystemPackage[];
  findCommand(commands: readonly string[]): string | undefined;
  installHint(wanted: SystemPackage): string;
}

// A script without types, imported by an address the compiler does not follow.
const { systemPackages, findCommand, installHint } = (await import(
  new URL('../../../scripts/system-packages.mjs', import.meta.url).href
)) as SystemPackages;

const wanted = systemPackages.find(({ name }) => name === 'Chromium');

/** The path of an installed Chromium; undefined if there is none. */
export const chromiumPath: string | undefined = wanted && findCommand(wanted.commands);

/** The command that installs one, for a test that cannot run. */
export const chromiumHint: string = wanted ? installHint(wanted) : 'install Chromium';

const flags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** A headless Chromium with its own profile, and a way to end it. */
export async function openChromium(
  options: BrowserContextOptions,
): Promise<{ context: BrowserContext; close: () => Promise<void> }> {
  const profile = mkdtempSync(join(tmpdir(), 'evenkeel-chromium-'));
  const context = await chromium.launchPersistentContext(profile, {
    ...options,
    ...(chromiumPath !== undefined && { executablePath: chromiumPath }),
    headless: true,
    args: flags,
  });
  return {
    context,
    close: async () => {
      await context.close();
      rmSync(profile, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}
