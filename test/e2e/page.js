// Looks at the page as a person does: page.js URL SCREENSHOT
// Prints what was seen as one JSON object. Needs playwright-core and Chromium, see test/services/browser.sh.
const { chromium } = require("playwright-core");

async function main(url, screenshot) {
  const browser = await chromium.launch({
    executablePath: process.env.LEDGERLAKE_CHROMIUM || "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  const complaints = [];
  page.on("console", (m) => m.type() === "error" && complaints.push(m.text()));
  page.on("pageerror", (e) => complaints.push(e.message));
  await page.goto(url);
  const numbers = await page.locator(".topic .numbers").first().textContent({ timeout: 20000 });
  const topic = await page.locator(".topic h2").first().textContent();
  const range = await page.locator(".partition .range").first().textContent();

  // A click into the bar reads from that offset, and goes on through the seam.
  const track = page.locator(".partition .track").first();
  const box = await track.boundingBox();
  await track.click({ position: { x: box.width * 0.6, y: box.height / 2 } });
  await page.locator("tr.seam").waitFor({ timeout: 20000 });
  const from = await page.locator("#from").inputValue();
  await page.waitForFunction(() => /^following|records/.test(document.querySelector("#stream-state").textContent));
  const rows = await page.locator("#rows tr:not(.seam):not(.gap)").evaluateAll((trs) => trs.map((tr) => ({
    side: tr.cells[0].textContent, partition: Number(tr.cells[1].textContent), offset: Number(tr.cells[2].textContent), key: tr.cells[4].textContent, record: tr.cells[5].textContent,
  })));
  const seam = await page.locator("tr.seam").textContent();

  // A place that is not there is refused with the reason.
  await page.locator("#from").fill("0:999999999");
  await page.locator("#stream-form button[type=submit]").click();
  await page.waitForFunction(() => document.querySelector("#stream-state").textContent.startsWith("refused"));
  const refused = await page.locator("#stream-state").textContent();
  complaints.splice(0, complaints.length, ...complaints.filter((c) => !/status of 416/.test(c))); // the browser's word for it

  await page.locator(".topic .more").first().click();
  await page.locator(".details pre").first().waitFor();
  const how = await page.locator(".details pre").allTextContents();
  await page.screenshot({ path: screenshot, fullPage: true });
  await browser.close();
  console.log(JSON.stringify({ topic, numbers, range, from, rows, seam, refused, how, complaints }));
}

main(...process.argv.slice(2)).catch((e) => {
  console.error(e);
  process.exit(1);
});
