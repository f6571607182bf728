// Received mail through the npm client `resend`. Started by ../run, which has brought a mail for
// box@in.example, and sets RESEND_BASE_URL and RESEND_API_KEY.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Resend } from 'resend';
import { ok, refused, TIME, UUID } from './answers.js';

const resend = new Resend(process.env.RESEND_API_KEY);
const { receiving } = resend.emails;
const newest = async () => ok(await receiving.list({ limit: 1 })).data[0];

test('received mail is listed and read', async () => {
  const item = await newest();
  assert.match(item.id, UUID);
  assert.match(item.created_at, TIME);
  for (const mail of [item, ok(await receiving.get(item.id, { html_format: 'cid' }))]) {
    assert.deepEqual([mail.from, mail.to, mail.subject], ['Ada <ada@example.com>', ['box@in.example'], 'Hello']);
    assert.deepEqual([mail.received_for, mail.message_id], [['box@in.example'], '<1@example.com>']);
    assert.deepEqual(mail.attachments.map(({ filename }) => filename), ['rows.csv']);
  }
  const mail = ok(await receiving.get(item.id));
  assert.equal(mail.object, 'email');
  assert.equal(mail.text.trim(), 'It works.');
  assert.equal(mail.headers.subject, 'Hello');
  assert.match(await (await fetch(mail.raw.download_url)).text(), /^From: Ada/);
  refused(await receiving.get(randomUUID()), 404, 'not_found');
});

test('its attachments are downloaded', async () => {
  const { id } = await newest();
  const [file] = ok(await receiving.attachments.list({ emailId: id })).data;
  const alone = ok(await receiving.attachments.get({ emailId: id, id: file.id }));
  assert.deepEqual([alone.object, alone.filename, alone.size], ['attachment', 'rows.csv', file.size]);
  assert.equal((await (await fetch(alone.download_url)).text()).trim(), 'a,b');
});

test('it is forwarded as it came, and within a mail', async () => {
  const { id } = await newest();
  const addresses = { emailId: id, from: 'box@in.example', to: 'team@example.com' };
  for (const [more, subject] of [[{}, 'Hello'], [{ passthrough: false, text: 'Look.' }, 'Fwd: Hello']]) {
    const sent = ok(await receiving.forward({ ...addresses, ...more }));
    assert.equal(ok(await resend.emails.get(sent.id)).subject, subject);
  }
});
