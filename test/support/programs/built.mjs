import { buildIfChanged } from '../../../scripts/build.mjs';

/** For vitest: builds what the tests import. */
export default function build() {
  const { failed, output } = buildIfChanged();
  if (failed) throw new Error(output);
}
