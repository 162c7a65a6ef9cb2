import { beforeAll, expect, it } from 'vitest';
import { buildPackage, guidePrograms, outputOfModule } from '../../support/programs/programs.js';
import { tooOld } from './support/suite.js';

const programs = guidePrograms('testing-your-app').filter(({ heading }) => !/^(CommonJS|Jest)/.test(heading));

/** What each program of the guide prints, and the versions it is run with. */
const expected: Readonly<
  Record<string, { readonly prints: RegExp; readonly versions?: Readonly<Record<string, string>> }>
> = {
  '# Testing your app': { prints: /^200 \{ id: 42 \}\n$/, versions: { nock: '20', nock15: '22.20' } },
  msw: { prints: /^200 \{ id: 42 \}\n$/, versions: { msw2: '20', msw: '22.12' } },
  MockAgent: { prints: /^200 \{ id: 42 \}\n$/ },
  'A real server': { prints: /^200 42\n$/ },
};

beforeAll(buildPackage);

it('has the expected programs', () => {
  expect(programs.map(({ heading }) => heading)).toEqual(Object.keys(expected));
});

for (const { heading, source } of programs) {
  const { prints, versions = { '': '20' } } = expected[heading] as (typeof expected)[string];
  for (const [alias, needed] of Object.entries(versions)) {
    const reason = tooOld(needed);
    const why = reason === undefined ? '' : ` (skipped: ${reason})`;
    it.skipIf(reason !== undefined)(
      `${heading}: the program runs and ends ${alias && `with ${alias}`}${why}`,
      async () => {
        const library = alias.replace(/\d+$/, '');
        const program =
          alias === '' ? source : source.replaceAll(new RegExp(`from '${library}(?=[/'])`, 'g'), `from '${alias}`);
        // msw 2 touches `localStorage`, of which Node 26 says that it is experimental.
        const nodeArgs = alias === 'msw2' ? ['--disable-warning=ExperimentalWarning'] : [];
        expect(await outputOfModule(program, undefined, nodeArgs)).toMatch(prints);
      },
    );
  }
}
