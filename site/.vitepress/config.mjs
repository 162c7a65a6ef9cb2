import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';
import { slugOf } from '../../scripts/docs-links.mjs';
import { readApi } from '../api.mjs';
import { pagesOf, sidebarOf } from '../pages.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));

export default defineConfig({
  title: 'evenkeel',
  description: 'Client-side load balancing for Node.js services on Kubernetes',
  lang: 'en',
  srcDir: '../.cache/site',
  outDir: '../build/site',
  cacheDir: '../.cache/vitepress',
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: '/logo.svg' }]],
  markdown: { anchor: { slugify: slugOf } },
  vite: { build: { chunkSizeWarningLimit: 4000 } },
  themeConfig: {
    logo: { src: '/logo.svg', alt: '' },
    outline: { level: [2, 3] },
    // Every word must be there: whoever pastes an error means its words together.
    search: { provider: 'local', options: { miniSearch: { searchOptions: { combineWith: 'AND' } } } },
    nav: [
      { text: 'Guides', link: '/guide/', activeMatch: '^/(guide|operating|examples)/' },
      { text: 'Reference', link: '/reference/options', activeMatch: '^/reference/' },
      { text: 'API', link: '/api/', activeMatch: '^/api/' },
      { text: 'Benchmarks', link: '/benchmarks-fleet', activeMatch: '^/benchmarks' },
      { text: 'Decisions', link: '/decision/', activeMatch: '^/decision/' },
    ],
    sidebar: sidebarOf(pagesOf(root), readApi(root)),
    footer: { message: 'Apache-2.0' },
  },
});
