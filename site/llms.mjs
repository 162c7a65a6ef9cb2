/** `llms.txt` and `llms-full.txt`: the documentation for coding assistants (https://llmstxt.org). */
import { linkTo, titleOf } from './pages.mjs';

/** What an assistant is told first, in this order; the rest is optional reading. */
const sections = /** @type {const} */ ([
  ['Guides', 'guide/'],
  ['Reference', 'reference/'],
  ['API', 'api/'],
  ['Operating', 'operating/'],
  ['Examples', 'examples/'],
]);

/** The list of pages, each as the Markdown the site has beside it. @param {ReadonlyMap<string, string>} texts of the pages @param {string} summary @param {string} base */
export function llmsTxt(texts, summary, base) {
  const listed = sections.map(([heading, folder]) => {
    const lines = [...texts]
      .filter(([page]) => page.startsWith(folder))
      .map(
        ([page, text]) =>
          `- [${titleOf(text)}](${base}${linkTo(page)
            .slice(1)
            .replace(/(^|\/)$/, '$1index')}.md): ${firstSentence(text)}`,
      );
    return `## ${heading}\n\n${lines.join('\n')}`;
  });
  return `# evenkeel\n\n> ${summary}\n\n${listed.join('\n\n')}\n`;
}

/** Guides, reference and API in one text. @param {ReadonlyMap<string, string>} texts @param {string} summary */
export function llmsFullTxt(texts, summary) {
  const pages = sections.flatMap(([, folder]) => [...texts].filter(([page]) => page.startsWith(folder)));
  return `# evenkeel\n\n> ${summary}\n\n${pages.map(([page, text]) => `<!-- ${page} -->\n\n${text.trim()}`).join('\n\n')}\n`;
}

/** The first sentence of the first paragraph, as plain text. @param {string} text */
function firstSentence(text) {
  const prose = text.replace(/^```[\s\S]*?^```$/gm, '');
  const paragraph = prose.split(/\n{2,}/).find((part) => !/^(#|---|\||!\[|<|- |\s*$)/.test(part));
  const plain = (paragraph ?? '')
    .replace(/\s+/g, ' ')
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .trim();
  return /^.*?[.:](?=\s|$)/.exec(plain)?.[0].replace(/:$/, '.') ?? plain;
}
