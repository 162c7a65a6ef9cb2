/** A page of benchmarks: a head, and a section per benchmark, each with the date and the machine of its own run. */

const HEADING = /^## .*$/m;

/** The sections of a Markdown text by their headings, without what stands before the first one. @param {string} text */
function sectionsOf(text) {
  const sections = text.split(/^(?=## )/m).filter((part) => part.startsWith('## '));
  return new Map(sections.map((section) => [headingOf(section), section.trim()]));
}

/** @param {string} section */
const headingOf = (section) => HEADING.exec(section)?.[0] ?? '';

/** The sections of a benchmark's output, each with the line `measured` below its heading. @param {string} output @param {string} measured */
function dated(output, measured) {
  return [...sectionsOf(output)].map(
    ([heading, section]) =>
      /** @type {const} */ ([heading, section.replace(heading, () => `${heading}\n\n${measured}`)]),
  );
}

/**
 * A page with the sections of new output in place of those with the same headings. Other sections stay as they were measured; sections
 * that the page does not have yet come last.
 * @param {string} page the page so far; empty if there is none
 * @param {string} head what stands before the first section
 * @param {readonly string[]} outputs what benchmarks printed
 * @param {string} measured when and on what machine
 */
export function withSections(page, head, outputs, measured) {
  const sections = sectionsOf(page);
  for (const output of outputs) {
    for (const [heading, section] of dated(output, measured)) sections.set(heading, section);
  }
  return `${[head.trim(), ...sections.values()].join('\n\n')}\n`;
}
