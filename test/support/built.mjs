import { buildIfChanged } from '../../scripts/build.mjs';

/** For vitest: the tests to come import what this builds. */
export default function build() {
  const { failed, output } = buildIfChanged();
  if (failed) throw new Error(output);
}
