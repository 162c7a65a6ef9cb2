import { setTimeout as pause } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { isMissing, titled } from '../../../support/programs/programs-of-debian.js';
import { until } from '../../../support/until.js';
import { BoardData, panelsOfBoard } from './board.js';
import { drawPictures } from './pictures.js';
import { Shop } from './shop.js';

const skip = isMissing('Prometheus');
/** `npm run board`. */
const draws = process.env.EVENKEEL_DRAW === '1';

it.skipIf(skip)(
  titled('Prometheus', 'every query of the board has data while pods are replaced and one is slow'),
  async () => {
    if (draws) return drawPictures();
    await using shop = await Shop.open(3, 12);
    await using data = await BoardData.read(shop.port, 250);
    const fromS = Date.now() / 1_000;
    await pause(1_000);
    await shop.roll(400);
    await shop.slow(300);
    const panels = await panelsOfBoard();
    let empty: string[] = [];
    await until('every query has data', async () => {
      empty = [];
      for (const { title, targets } of panels) {
        for (const target of targets) {
          const lines = await data.lines(target, fromS, Date.now() / 1_000);
          if (!lines.some(({ points }) => points.length > 0)) empty.push(`${title}: ${target.expr}`);
        }
      }
      return empty.length === 0;
    }).catch(() => {});
    expect(empty).toEqual([]);
    expect(shop.failed, shop.errors).toBe(0);
    expect(shop.answered).toBeGreaterThan(100);
  },
  draws ? 300_000 : undefined,
);
