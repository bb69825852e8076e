// Sends the form as JSON and lists the cards. Text is set, never parsed as HTML.

const form = document.getElementById('form');
const message = document.getElementById('message');

async function list() {
  const cards = await (await fetch('/cards')).json();
  document.getElementById('cards').replaceChildren(...cards.map(({ holder, number, stored }) => {
    const row = document.createElement('tr');
    const code = document.createElement('code');
    code.textContent = stored;
    row.insertCell().textContent = holder;
    row.insertCell().textContent = number;
    row.insertCell().append(code);
    return row;
  }));
}

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const response = await fetch('/cards', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(Object.fromEntries(new FormData(form))),
  });
  message.textContent = response.ok ? 'Stored.' : (await response.json()).message;
  if (response.ok) form.reset();
  await list();
});

await list();
