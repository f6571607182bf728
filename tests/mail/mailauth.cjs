// What npm's `mailauth` makes of messages: node mailauth.cjs ADDRESS:PORT < JSON, an array of
// {file, sender, ip, helo}. Prints for each what it found. Names are asked of the DNS server at ADDRESS:PORT.

const { readFileSync } = require("node:fs");
const { Resolver } = require("node:dns").promises;
const { authenticate } = require("mailauth");

const resolver = new Resolver({ timeout: 5000, tries: 2 });
resolver.setServers([process.argv[2]]);

async function judge({ file, sender, ip, helo }) {
  const found = await authenticate(readFileSync(file), {
    sender,
    ip,
    helo,
    mta: "test",
    disableArc: true,
    disableBimi: true,
    resolver: (name, type) => resolver.resolve(name, type),
  });
  return {
    file,
    dkim: found.dkim.results.map((one) => `${one.algo} ${one.status.result}${one.status.comment ? ` (${one.status.comment})` : ""}`),
    spf: found.spf && found.spf.status.result,
    dmarc: found.dmarc && found.dmarc.status.result,
  };
}

async function main() {
  const judged = [];
  for (const message of JSON.parse(readFileSync(0, "utf8"))) {
    judged.push(await judge(message));
  }
  console.log(JSON.stringify(judged));
}

main();
