import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { openChromium } from '../../../support/programs/chromium.js';
import { root } from '../../../support/programs/programs.js';
import { BoardData, panelsOfBoard } from './board.js';
import { boardPage, type Mark } from './drawing.js';
import { Shop } from './shop.js';

const image = (name: string): string => join(root, 'docs/images', name);
const nowS = (): number => Date.now() / 1_000;

/** Draws the pictures of `docs/operating` and of the guides: the board, the page, `top`. */
export async function drawPictures(): Promise<void> {
  await using shop = await Shop.open(4, 16);
  await using data = await BoardData.read(shop.port, 1_000);
  const { context, close } = await openChromium({ viewport: { width: 1_100, height: 620 }, deviceScaleFactor: 1 });
  try {
    // Until the first scrape has something to compare with.
    await pause(3_000);
    const fromS = nowS();
    const marks: Mark[] = [];
    const happened = (text: string): void => void marks.push({ atS: nowS(), text });
    await pause(12_000);
    happened('one pod slow');
    await shop.slow(300);
    await pause(22_000);
    happened('fast again');
    await shop.slow(0);
    await pause(10_000);
    happened('one resets');
    await shop.breaks(true);
    await pause(6_000);
    await shop.breaks(false);
    await pause(12_000);
    happened('rolling update');
    const rolling = shop.roll(4_000);
    await pause(6_000);
    const page = await context.newPage();
    await page.goto(`http://127.0.0.1:${shop.port}/`);
    await pause(2_500);
    await page.screenshot({ path: image('admin-rolling-update.png') });
    await rolling;
    await pause(10_000);
    const toS = nowS();
    const drawn = [];
    for (const panel of await panelsOfBoard()) {
      const lines = [];
      for (const target of panel.targets) lines.push(...(await data.lines(target, fromS, toS)));
      drawn.push({ panel, lines });
    }
    // A page of its own: what the other allows itself (its content security policy) would hold for what is set there.
    const blank = await context.newPage();
    await blank.setViewportSize({ width: 1_440, height: 900 });
    await blank.setContent(boardPage(drawn, fromS, toS, marks));
    await blank.screenshot({ path: image('board.png'), fullPage: true });
    process.stdout.write(`${shop.answered} calls answered, ${shop.shed} shed, ${shop.failed} failed: ${shop.errors}\n`);
  } finally {
    await close();
  }
}
