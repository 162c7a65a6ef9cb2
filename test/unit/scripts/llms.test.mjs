import { expect, test } from 'vitest';
import { llmsTxt } from '../../../site/llms.mjs';

test('llms.txt describes a page by its first sentence of prose, also if the page begins with code', () => {
  const text = `# HTTP

\`\`\`sh
npm install evenkeel
\`\`\`

\`\`\`js [import]
import { createFetch } from 'evenkeel/undici';

const orders = createFetch('http://orders.shop:8080');
\`\`\`

\`evenkeel/undici\` spreads requests over [pods](rbac.md). More of it.
`;
  expect(llmsTxt(new Map([['guide/http.md', text]]), 'Balances.', '/')).toContain(
    '- [HTTP](/guide/http.md): `evenkeel/undici` spreads requests over pods.\n',
  );
});
